"""The wall and the layers: who may import whom, checked on the source itself."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
LAYERS = ["cli", "agent", "replay", "experience", "proposal", "gates", "judge", "sandbox", "models", "instruments", "session", "task"]
"""Left may import right. ``models`` and ``sandbox`` do not know each other; errors, canonical, frozen and share are below all."""
HOST = sorted((ROOT / "infra_agent").rglob("*.py"))
CAGE = sorted([*(ROOT / "sandboxes").rglob("*.py"), *(ROOT / "feedback").rglob("*.py")])


def imports(path: Path) -> list[str]:
    tree = ast.parse(path.read_text())
    found = [alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names]
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            found += [f"{node.module}.{alias.name}" for alias in node.names]
    return found


def layer(module: str) -> str:
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else ""


@pytest.mark.parametrize("path", HOST, ids=lambda p: str(p.relative_to(ROOT)))
def test_host_imports_nothing_of_the_cage(path: Path) -> None:
    forbidden = {"torch", "triton", "feedback", "sandboxes", "pickle", "marshal"}
    assert not {name.split(".")[0] for name in imports(path)} & forbidden


@pytest.mark.parametrize("path", CAGE, ids=lambda p: str(p.relative_to(ROOT)))
def test_cage_imports_nothing_of_the_host(path: Path) -> None:
    assert "infra_agent" not in {name.split(".")[0] for name in imports(path)}


@pytest.mark.parametrize("path", HOST, ids=lambda p: str(p.relative_to(ROOT)))
def test_layers(path: Path) -> None:
    own = layer(".".join(path.relative_to(ROOT).with_suffix("").parts))
    if own not in LAYERS:
        return
    for name in imports(path):
        other = layer(name) if name.startswith("infra_agent.") else ""
        if other in LAYERS and other != own:
            assert LAYERS.index(own) < LAYERS.index(other), f"{path}: {own} imports {name}"


@pytest.mark.parametrize("path", [*HOST, *CAGE], ids=lambda p: str(p.relative_to(ROOT)))
def test_files_stay_small(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= 350


def test_functions_stay_small() -> None:
    functions = (node for path in [*HOST, *CAGE] for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.FunctionDef))
    sizes = sorted((node.end_lineno or 0) - node.lineno + 1 for node in functions)
    assert sizes[int(len(sizes) * 0.9)] <= 30


def test_every_host_module_loads_without_torch_and_triton() -> None:
    modules = [".".join(p.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__") for p in HOST]
    code = (
        f"import sys, importlib\nfor m in {modules!r}: importlib.import_module(m)\nprint(sorted({{'torch', 'triton'}} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[]"


def test_the_layer_check_bites(tmp_path: Path) -> None:
    bad = tmp_path / "bad.py"
    bad.write_text("from infra_agent.agent import loop\nimport torch\n")
    assert imports(bad) == ["torch", "infra_agent.agent.loop"]
    assert LAYERS.index("session") > LAYERS.index(layer("infra_agent.agent.loop"))
