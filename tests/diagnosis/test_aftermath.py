"""What comes after the cause, or is nothing: echoes, timeouts, stops, noise."""

from __future__ import annotations

import pytest

from zeroboard.diagnosis.aftermath import AFTERMATH
from zeroboard.diagnosis.matching import of_exception, of_line


@pytest.mark.parametrize(
    "text",
    [
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n",
        "DistBackendError: NCCL error in: x.cpp:1, remote process exited or there was a network error",
        "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.0.1]:1",
        "SystemExit: 143",
        "subprocess.CalledProcessError: Command '['/env/bin/python', 'train.py']' returned non-zero exit status 1.",
    ],
)
def test_an_echo_is_known(text: str) -> None:
    assert of_exception(text)[0].role == "echo"


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("KeyboardInterrupt", "stopped-by-user"),
        ("torch.distributed.elastic.multiprocessing.api.SignalException: Process 4 got signal: 2", "stopped-by-user"),
        (
            "SignalException: Process 4 got signal: 15",
            "killed-by-signal.told",
        ),
        (
            "RuntimeError: [gloo/unbound_buffer.cc:81] Timed out waiting 1800000ms for recv operation",
            "collective-timeout",
        ),
        ("torch.distributed.DistNetworkError: The client socket has timed out after 60000ms", "collective-timeout"),
    ],
)
def test_what_shows_late_is_known(text: str, key: str) -> None:
    rule = of_exception(text)[0]
    assert (rule.role, rule.key) == ("late", key)


@pytest.mark.parametrize(
    "text",
    [
        " [WARNING]  async_io requires the dev libaio .so object and headers but these were not found.",
        "[W0312 ProcessGroupNCCL.cpp:1496] Warning: destroy_process_group() was not called before program exit",
        "[W socket.cpp:401] [c10d] The server socket has failed to bind to [::]:29500 (errno: 97 - Address family not)",
        "huggingface/tokenizers: The current process just got forked. (set TOKENIZERS_PARALLELISM=true)",
    ],
)
def test_noise_is_named_as_such(text: str) -> None:
    found = of_line(text)
    assert found is not None and (found[0].role, found[0].code) == ("noise", "benign")


def test_nothing_here_can_be_a_cause() -> None:
    assert all(rule.role != "cause" for rule in AFTERMATH)
