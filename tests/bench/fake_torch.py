#!/usr/bin/python3
"""A stand-in for python3 torch_peer.py. FAKE_TORCH chooses its behaviour; results and times are known to the tests.

  (unset)     takes part: one fused form, and one that fails; 100 us a repetition
  dies        ends at the first request for times
  hangs       never says that it has started
  prints      says something else than JSON
  lacks       answers with an error: it cannot run here
"""

import json
import os
import pathlib
import sys
import time

BEHAVIOUR = os.environ.get("FAKE_TORCH", "")
BYTES = {"f32": 4, "f16": 2, "bf16": 2}


def say(answer):
    print(json.dumps(answer), flush=True)


def check_operands(request, rank_count):
    """Checks that every rank's files have the sizes that the operator implies."""
    m, n, k, op = request["m"], request["n"], request["k"], request["op"]
    shard = m // rank_count
    sizes = {
        "a": (shard if op == "all_gather_matmul" else m) * k,
        "b": k * n,
        "c": (shard if op == "matmul_reduce_scatter" else m) * n,
    }
    for name, count in sizes.items():
        for rank in range(rank_count):
            found = (pathlib.Path(request["directory"]) / f"{name}.{rank}").stat().st_size
            assert found == count * BYTES[request["dtype"]], f"{name}.{rank} has {found} bytes"


def main():
    program, rank_count = pathlib.Path(sys.argv[1]), int(sys.argv[2])
    assert "torch" in program.read_text()
    if BEHAVIOUR == "hangs":
        time.sleep(1000)
    if BEHAVIOUR == "prints":
        print("Welcome!", flush=True)
    if BEHAVIOUR == "lacks":
        say({"error": "no module torch here"})
    say({"torch": "0.0-fake", "environment": {}})
    for line in sys.stdin:
        request = json.loads(line)
        if request["do"] == "open":
            check_operands(request, rank_count)
            say({"forms": {"fused_eager": {"error_ratio": 0.25}, "fused_graph": {"failure": "no graphs here"}}})
        elif request["do"] == "time":
            if BEHAVIOUR == "dies":
                print("the device is gone", file=sys.stderr)
                return 3
            say({"times_us": {"fused_eager": [100.0] * request["repetitions"]}})
        else:
            say({})
    return 0


sys.exit(main())
