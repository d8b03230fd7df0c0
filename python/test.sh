#!/bin/sh
# The Python package against a real node: builds the wheel and the node in the development profile,
# puts the wheel into an environment of its own below the build cache, runs the tests. What the
# environment holds is pinned in requirements-test.txt; it is made anew when that file changes.
# Further arguments go to pytest.
set -eu
CDPATH='' cd "$(dirname "$0")/.."
: "${CARGO_TARGET_DIR:?where builds go; ./x test says}"
home=$CARGO_TARGET_DIR/python
venv=$home/venv
wanted=python/requirements-test.txt

mkdir -p "$home"
# An environment does not outlive the Python that made it.
if ! cmp -s "$wanted" "$home/installed.txt" || ! "$venv/bin/python3" -c '' 2>/dev/null; then
    rm -rf "$venv" "$home/installed.txt"
    python3 -m venv "$venv"
    "$venv/bin/python3" -m pip install --quiet --disable-pip-version-check -r "$wanted"
    cp "$wanted" "$home/installed.txt"
fi

rm -rf "$home/wheels"
cargo build --quiet -p weir
"$venv/bin/maturin" build --quiet --manifest-path python/Cargo.toml \
    --interpreter "$venv/bin/python3" --out "$home/wheels"
"$venv/bin/python3" -m pip install --quiet --disable-pip-version-check --no-deps \
    --force-reinstall "$home"/wheels/weir-*.whl

WEIR_BINARY=$CARGO_TARGET_DIR/debug/weir
PYTHONDONTWRITEBYTECODE=1
export WEIR_BINARY PYTHONDONTWRITEBYTECODE
# From the folder of the tests: the package is the installed one, never the sources beside it.
cd python/tests
exec "$venv/bin/python3" -m pytest -c ../pyproject.toml -p no:cacheprovider "$@"
