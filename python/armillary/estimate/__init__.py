"""Times of steps and collectives without a simulation, each a bound or an estimate.

    bounds.py      lower bounds of a collective and of a step, whatever the algorithm and schedule
    floor.py       lower bound of a simulated step, at any bandwidths
    step_model.py  estimate of a step as a function of bandwidths (LIBRA's model)
    terms.py       the collectives of a workload as terms of that model
    roofline.py    estimate of a recommendation model's step from its parts (Eq. 1 of Neo)

`carried_bytes.py` has the bytes for all of them, `traffic.py` where groups lie on a topology.
docs/models/estimates.md has the table: what each is a bound of, how far estimates are off, who uses
them. Times that need simulations of single collectives are in `plan` (`plan/roofline.py`,
`plan/costs.py`), what layers keep in `workload/memory.py`, peak memory in `crates/layouts`.
"""
