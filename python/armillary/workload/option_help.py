"""What families build, and what their options mean, for whoever asks on a command line.

The options of decoders and mixtures of experts are the fields of `Parallelism`, which explains them
itself (`families.explanations`)."""

from __future__ import annotations

from collections.abc import Mapping

FAMILIES: Mapping[str, str] = {
    "transformer": "One training step of a dense decoder. Ranks: tp x cp x dp x pp, tp fastest.",
    "moe": "One training step of a mixture of experts. Ranks: tp x cp x dp x pp, tp fastest; ep divides cp x dp.",
    "dlrm": "Iterations of a recommendation model on dp NPUs. Widths are bytes of an element.",
    "cnn": "Data-parallel iterations of a convolutional network on dp NPUs. Widths are bytes of an element.",
    "layerwise": "Iterations of a list of layers with recorded times. Ranks: inner-dp x mp x dp / inner-dp.",
}

_SHARED = {
    "dp": "NPUs that each take a part of the batch",
    "passes": "iterations",
}

OPTIONS: Mapping[str, Mapping[str, str]] = {
    "dlrm": {
        **_SHARED,
        "global_batch": "samples a step over all NPUs, instead of local-batch",
        "local_batch": "samples a step on an NPU; the model's own if neither this nor global-batch is given",
        "flow": "hoti: inputs are where they are needed; neo: lengths and indices are distributed first",
        "pipelined": "with neo: distribute the inputs of the next iteration during the top MLP of this one",
        "sharding": "how tables are split over NPUs: whole, by column, by row, rows within a node, or copied (data)",
        "column_shards": "pieces of a table that is split by column; the fewest that give every NPU one if not given",
        "npus_per_node": "NPUs that share the rows of a table with table_row",
        "capacity": "bytes of tables on an NPU at most",
        "width": "of dense weights and activations; the model's own if not given",
        "gradient_width": "of gradients that are all-reduced",
        "embedding_width": "of tables",
        "forward_width": "of pooled rows on the network",
        "backward_width": "of their gradients on the network",
        "index_width": "of indices on the network",
        "length_width": "of lengths on the network",
        "optimizer": "of the tables",
        "dense_optimizer": "of the MLPs",
        "elementwise": "activations, gathered features and the update of the MLPs take time",
        "bottom": "shared: the bottom MLP is data-parallel; first: NPU 0 does it for all and holds no tables",
    },
    "cnn": {
        **_SHARED,
        "local_batch": "samples a step on an NPU",
        "width": "of weights and activations",
        "gradient_width": "of gradients that are all-reduced; as the weights if not given",
        "optimizer": "what updates the weights",
        "elementwise": "with multiplications: normalisations, activations and additions take time",
        "kernels": "multiplications: convolutions alone; fused, eager: the kernels of libraries (docs/models/cnn.md)",
        "repack": "with fused and eager: convolutions rewrite their tensors in another layout",
    },
    "layerwise": {
        **_SHARED,
        "mp": "NPUs that share a layer, which exchange activations",
        "inner_dp": "NPUs of a data-parallel group that stand next to one another",
    },
}
