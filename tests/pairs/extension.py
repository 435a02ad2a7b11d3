"""A workspace whose entry uses a C extension that it builds itself."""

from collections.abc import Mapping

from infra_agent.task.tree import Tree

_BUILD = '''"""Compile what lies beside this file."""

import importlib.util
import subprocess
import sysconfig
import tempfile
from pathlib import Path

PATH = Path(tempfile.mkdtemp()) / "extension.so"
SOURCE = Path(__file__).with_name("extension.c")
subprocess.run(["gcc", "-O1", "-shared", "-fPIC", f"-I{sysconfig.get_path('include')}", "-o", str(PATH), str(SOURCE)], check=True)
spec = importlib.util.spec_from_file_location("extension", PATH)
extension = importlib.util.module_from_spec(spec)
spec.loader.exec_module(extension)
'''


def tree(entry: str, source: str, drawn: Mapping[str, str]) -> Tree:
    """``entry`` imports ``extension`` from ``work.build``; ``drawn`` replaces what stands for it in the C ``source``."""
    for field, value in drawn.items():
        source = source.replace(field, value)
    files = {"entry.py": entry, "build.py": _BUILD, "extension.c": source, "__init__.py": ""}
    return {f"work/{path}": text.encode() for path, text in files.items()}
