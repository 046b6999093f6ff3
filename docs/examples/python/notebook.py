"""Plan, tune, run and draw one operator, cell by cell: paste it into a notebook, or run it as it is.

    python3 notebook.py [FOLDER]     writes plan.html and store.db into the folder
"""

# %% One operator: every rank multiplies A [m, k] by its B [k, n], and the products are summed over the ranks.
import pathlib
import sys
import tempfile

import numpy as np

import mc2

folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp())
op = mc2.OpSpec("matmul_all_reduce", m=512, n=512, k=256, dtype="f32", ranks=2)

# %% Two ranks of this machine over an emulated link: the matmul is real, the time of a transfer is slept.
world = mc2.Communicator(ranks=2, link="2.5Gbit,20us")
print(world.fingerprint)

# %% Time both lanes, fit curves, plan, check the best cuts and race them; keep everything in a store.
with mc2.Store(folder / "store.db") as store:
    tuned = mc2.tune(op, world, store=store, budget_s=3, max_count=8, race_rounds=9)
print(tuned.plan.page())
print(*tuned.notes, sep="\n")

# %% Another m needs no measuring, unless this machine was too unsteady for a model; the notes above say so then.
if tuned.model is not None:
    taller = mc2.plan(op.replace(m=2048), tuned.model)
    print(taller, f"saves {taller.benefit:.1%} of {taller.serial_us:.0f} us, as predicted")

# %% Run it on numpy arrays, which are not copied.
rng = np.random.default_rng()
a = [rng.uniform(-1, 1, (op.m, op.k)).astype(np.float32) for _ in range(op.ranks)]
b = [rng.uniform(-1, 1, (op.k, op.n)).astype(np.float32) for _ in range(op.ranks)]
prepared = world.prepare(tuned.plan, a, b)
record = prepared.run()
np.testing.assert_allclose(prepared.c[0], sum(x.astype(np.float64) @ y for x, y in zip(a, b)), atol=1e-3)
print(f"fused {record.makespan_us:.0f} us" + (f", predicted {tuned.plan.makespan_us:.0f} us" if tuned.model else ""))

# %% A notebook draws a plan by itself. This file has the plan beside the measured run:
(folder / "plan.html").write_text(tuned.plan.svg(measured=mc2.timeline_of(tuned.plan, record)))
print(f"drawn in {folder / 'plan.html'}")
world.close()
