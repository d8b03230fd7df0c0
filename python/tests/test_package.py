"""The package's own consistency: codes, layouts, the stub, the public names."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path

import numpy as np

import weir
from weir import _weir, codes


def test_codes_are_the_protocols() -> None:
    for name, values in _weir.CODES.items():
        ours = {member.name: int(member) for member in getattr(codes, name)}
        assert ours == dict(values), name


def test_rows_are_laid_out_as_the_wire_has_them() -> None:
    assert weir.ORDER_DTYPE.itemsize == _weir.ROW_LEN == 159
    fields = weir.ORDER_DTYPE.fields or {}
    assert [fields[name][1] for name, *_ in _weir.ROW_FIELDS] == [f[1] for f in _weir.ROW_FIELDS]
    sizes = sum(fields[name][0].itemsize for name in fields)
    assert sizes == _weir.ROW_LEN, "no gap and no overlap"


def test_the_stub_says_what_the_extension_has() -> None:
    stub = Path(_weir.__file__ or "").with_name("_weir.pyi").read_text(encoding="utf-8")
    classes = {node.name: node for node in ast.parse(stub).body if isinstance(node, ast.ClassDef)}
    built = {name: kind for name, kind in vars(_weir).items() if inspect.isclass(kind)}
    assert set(classes) == set(built)
    for name, node in classes.items():
        told = {part.name for part in node.body if isinstance(part, ast.FunctionDef)}
        has = {part for part in vars(built[name]) if not part.startswith("_")}
        assert {part for part in told if not part.startswith("_")} == has, name
    assert (Path(weir.__file__).parent / "py.typed").exists()


def test_all_that_is_offered_is_there() -> None:
    assert [name for name in weir.__all__ if not hasattr(weir, name)] == []


def test_rows_of_dictionaries_have_their_usual_values() -> None:
    orders = [{"rec": 7, "seq": 9, "side": "Sell"}, {"rec": 8, "order_id": 5}]
    rows = weir.rows_of(orders, source=40)
    assert rows["order_id"].tolist() == [40 << 48 | 7, 5]
    assert rows["side"].tolist() == [weir.Side.Sell, weir.Side.Buy]
    assert set(rows["partition_id"].tolist()) == {40}
    assert weir.states(rows).tolist() == rows.tolist()
    rows["flags"] = [weir.RowFlag.LEAVE, 0]
    assert weir.gone(rows).tolist() == [40 << 48 | 7]
    assert np.array_equal(weir.rows_of(rows), rows)


def test_secrets_are_not_in_what_is_printed() -> None:
    from weir.endpoint import Endpoint

    endpoint = Endpoint("127.0.0.1:1", 1, "ab" * 32, None, None, 5.0)
    assert "ab" * 4 not in repr(endpoint)
