#!/bin/sh
# The Python package against a real node: builds the wheel and the node in the development profile,
# installs the wheel into an environment below the build cache, runs the tests. The node is built as
# for the workspace's tests, so that after them there is nothing to build. The environment's
# packages are pinned in requirements-test.txt; it is made anew when that file or Python changes.
# Further arguments go to pytest.
set -eu
CDPATH='' cd "$(dirname "$0")/.."
: "${CARGO_TARGET_DIR:?the folder of builds; ./x test sets it}"
home=$CARGO_TARGET_DIR/python
venv=$home/venv
wanted=python/requirements-test.txt

mkdir -p "$home"
# The second condition: the Python that made the environment is gone.
if ! cmp -s "$wanted" "$home/installed.txt" || ! "$venv/bin/python3" -c '' 2>/dev/null; then
    rm -rf "$venv" "$home/installed.txt"
    python3 -m venv "$venv"
    "$venv/bin/python3" -m pip install --quiet --disable-pip-version-check -r "$wanted"
    cp "$wanted" "$home/installed.txt"
fi

rm -rf "$home/wheels"
cargo test --quiet --workspace --no-run --test packaging
"$venv/bin/maturin" build --quiet --manifest-path python/Cargo.toml \
    --interpreter "$venv/bin/python3" --out "$home/wheels"
"$venv/bin/python3" -m pip install --quiet --disable-pip-version-check --no-deps \
    --force-reinstall "$home"/wheels/weir-*.whl

WEIR_BINARY=$CARGO_TARGET_DIR/debug/weir
PYTHONDONTWRITEBYTECODE=1
export WEIR_BINARY PYTHONDONTWRITEBYTECODE
# In the folder of the tests, so that they import the installed package and never its sources.
cd python/tests
exec "$venv/bin/python3" -m pytest -c ../pyproject.toml -p no:cacheprovider "$@"
