"""Which topology, with how much bandwidth in each dimension, trains a model fastest if every NPU
has 200 GB/s in total? The optimum of the model is proved; the best designs are then simulated."""

import armillary as arm

result = arm.design(
    {
        "npus": 64,
        "npu": {"peak": "234 TFLOPS"},
        "workloads": [{"model": "llama-3-8b", "tp": 8}],
        "topologies": {"dimensions": [2, 3], "largest": {"FullyConnected": 8}},
        "bandwidth": "200 GB/s",
        "cost": "libra",
    }
)
print(result.table().select("rank", "topology", "bandwidth_gbs", "simulated_s").head(3))
best = arm.simulate("llama-3-8b", result.platform(), tp=8, dp=8)
print(f"the best one simulated: {best.step_time_ns / 1e6:,.0f} ms")
