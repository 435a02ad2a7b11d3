"""An autotuned kernel is an honest kernel: it must run where there is no device to time its configurations on."""

import json
from pathlib import Path

import numpy as np
from safetensors.numpy import save

from infra_agent.sandbox.cage import Cage
from infra_agent.task.tree import pack

HOST = Path(__file__).parent / "kernels_static" / "host.py"


def test_the_first_configuration_runs_interpreted_and_says_so(cage: Cage) -> None:
    x = np.arange(1000, dtype=np.float32)
    request = {"entry": {"module": "host", "callable": "autotuned"}}
    sections = {"tree": pack({"host.py": HOST.read_bytes()}), "inputs": save({"x": x})}
    result = cage.run("feedback.accuracy", request, sections, {"x": ("F32", x.shape)})
    assert result.ok, result.text.decode()
    found = np.frombuffer(result.output, np.float32, x.size, result.layout.slots["x"].offset)
    assert np.array_equal(found, x + 1)
    assert "tuned is autotuned: the first of 2 configurations was taken" in result.text.decode()
    assert json.loads(result.report)["intact"] is True
