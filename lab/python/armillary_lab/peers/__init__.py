"""Reference runs of other simulators: Garnet and BookSim2 (`flits.py`), ns-3 and htsim
(`packets.py`)."""
