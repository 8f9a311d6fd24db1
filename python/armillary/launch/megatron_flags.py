"""Flags of Megatron-LM that decide neither the model nor the layout, each group with its reason.

Here: names alone. Not here: the flags that are read (`megatron.py`, `megatron_model.py`). Read from
megatron/training/arguments.py of NVIDIA/Megatron-LM at commit 000c4ac2 (release 0.16), and from the
classes of megatron-core 0.16.1."""

from __future__ import annotations

from collections.abc import Mapping

IDLE: Mapping[str, str] = {
    "where data come from: loading hides behind a step": """
        data-path train-data-path valid-data-path test-data-path data-args-path
        per-split-data-args-path data-cache-path split num-workers num-dataset-builder-threads
        object-storage-cache-path mid-level-dataset-surplus dataloader-type sample-rate mask-prob
        short-seq-prob vocab-file merge-file vocab-extra-ids tokenizer-type tokenizer-model
        tokenizer-metadata tokenizer-hf-include-special-tokens tiktoken-pattern
        tiktoken-num-special-tokens tiktoken-special-tokens sft-tokenizer-prompt-format""",
    "values of the optimizer, not its operations": """
        lr lr-decay-style lr-wsd-decay-style lr-decay-iters lr-decay-samples lr-wsd-decay-samples
        lr-wsd-decay-iters lr-warmup-fraction lr-warmup-iters lr-warmup-samples lr-warmup-init
        min-lr decoupled-lr decoupled-min-lr weight-decay start-weight-decay end-weight-decay
        weight-decay-incr-style clip-grad adam-beta1 adam-beta2 adam-eps sgd-momentum loss-scale
        initial-loss-scale min-loss-scale loss-scale-window hysteresis""",
    "values of weights and of the loss": """
        seed init-method-std embedding-init-method-std norm-epsilon rotary-base rotary-percent
        rotary-seq-len-interpolation-factor rope-scaling-factor rotary-scaling-factor mscale
        mscale-all-dim mtp-loss-scaling-factor moe-aux-loss-coeff moe-z-loss-coeff
        moe-input-jitter-eps moe-router-topk-scaling-factor moe-router-bias-update-rate
        moe-router-load-balancing-type moe-router-score-function moe-router-dtype
        moe-token-drop-policy glu-linear-offset fp8-margin fp8-interval fp8-amax-history-len
        fp8-amax-compute-algo fp4-recipe beta-fast beta-slow""",
    "length and end of the run, not its steps": """
        train-iters train-samples exit-interval exit-duration-in-mins eval-iters eval-interval
        iterations-to-skip ckpt-step distributed-timeout-minutes
        distributed-timeout-seconds-after-init distributed-backend train-sync-interval""",
    "checkpoints, which happen between steps": """
        save load save-interval persistent-save-interval save-retain-interval pretrained-checkpoint
        non-persistent-save-interval non-persistent-ckpt-type non-persistent-global-ckpt-dir
        non-persistent-local-ckpt-dir non-persistent-local-ckpt-algo dist-ckpt-format ckpt-format
        ckpt-convert-format ckpt-convert-save dist-ckpt-strictness replication-jump
        replication-factor""",
    "logs and profiles": """
        log-interval timing-log-level timing-log-option tensorboard-dir tensorboard-log-interval
        tensorboard-queue-size wandb-project wandb-entity wandb-exp-name wandb-save-dir
        logging-level profile-step-start profile-step-end profile-ranks memory-snapshot-path
        config-logger-dir one-logger-project one-logger-run-name app-tag-run-name
        app-tag-run-version straggler-ctrlr-port straggler-minmax-count logging-path""",
    "how processes start and are watched": """
        local-rank rank node-rank master-addr master-port rdzv-id rdzv-backend rdzv-endpoint
        tp-comm-bootstrap-backend tp-comm-overlap-cfg manual-gc-interval rerun-mode
        error-injection-rate error-injection-type adlr-autoresume-interval
        nccl-communicator-config-path inprocess-max-iterations result-rejected-tracker-filename""",
    "sizes that the simulator takes from the layout": """
        microbatch-group-size-per-virtual-pipeline-stage ddp-num-buckets ddp-bucket-size
        suggested-communication-unit-size wgrad-deferral-limit moe-deepep-num-sms
        cuda-graph-warmup-steps recompute-num-layers-per-stage optimizer-offload-fraction""",
}
"""Flags with values, by the reason why they change no time."""

IDLE_SWITCHES: Mapping[str, str] = {
    "where data come from: loading hides behind a step": """
        mock-data no-mmap-bin-files no-create-attention-mask-in-dataloader reset-position-ids
        reset-attention-mask eod-mask-loss legacy-tokenizer trust-remote-code
        allow-ambiguous-pad-tokens full-validation multiple-validation-sets finetune""",
    "logs and profiles": """
        log-params-norm log-num-zeros-in-grad log-throughput log-progress log-energy
        no-barrier-with-level-1-timing log-timers-to-tensorboard log-straggler
        no-log-loss-scale-to-tensorboard log-validation-ppl-to-tensorboard log-device-memory-used
        log-memory-to-tensorboard log-world-size-to-tensorboard moe-per-layer-logging profile
        use-pytorch-profiler record-memory-history no-one-logger one-logger-async
        disable-straggler-on-startup run-workload-inspector-server tee""",
    "checkpoints, which happen between steps": """
        no-save-optim no-save-rng no-load-optim no-load-rng load-main-params-from-ckpt async-save
        no-strict-fsdp-dtensor-load no-initialization exit-on-missing-checkpoint use-dist-ckpt
        no-use-tokenizer-model-from-checkpoint-args use-persistent-ckpt-worker replication
        auto-detect-ckpt-format ckpt-convert-update-legacy-dist-opt-format
        ckpt-fully-parallel-save no-ckpt-fully-parallel-save ckpt-fully-parallel-load
        ckpt-assume-constant-structure dist-ckpt-save-pre-mcore-014
        dist-ckpt-optim-fully-reshardable distrib-optim-fully-reshardable-mem-efficient
        override-opt-param-scheduler override-opt_param-scheduler
        use-checkpoint-opt-param-scheduler use-checkpoint-opt_param-scheduler""",
    "values of weights and of the loss": """
        init-method-xavier-uniform data-parallel-random-init use-cpu-initialization
        apply-layernorm-1p rotary-interleaved use-rope-scaling apply-query-key-layer-scaling
        calculate-per-token-loss moe-router-pre-softmax moe-apply-probs-on-input openai-gelu
        attention-softmax-in-fp32 fp16-lm-cross-entropy muon-use-nesterov
        disable-bf16-reduced-precision-matmul init-model-with-meta-device""",
    "how processes start and are watched": """
        manual-gc no-manual-gc-eval exit-signal-handler inprocess-restart enable-ft-package
        calc-ft-timeouts adlr-autoresume disable-msc disable-gloo-process-groups
        te-rng-tracker inference-rng-tracker lazy-mpu-init decrease-batch-size-if-needed
        check-for-spiky-loss check-for-large-grads no-check-for-nan-in-loss-and-grad
        enable-experimental use-mcore-models no-async-tensor-model-parallel-allreduce
        no-clone-scatter-output-in-embedding no-align-grad-reduce no-align-param-gather
        no-scatter-gather-tensors-in-pipeline test-mode moe-router-force-load-balancing
        standalone""",
    "fused kernels, which the simulator assumes": """
        moe-grouped-gemm moe-permute-fusion moe-router-fusion cross-entropy-loss-fusion
        use-te-activation-func use-fused-weighted-squared-relu moe-router-padding-for-fp8
        moe-router-padding-for-quantization ddp-average-in-collective
        ddp-pad-buckets-for-high-nccl-busbw fsdp-double-buffer keep-fp8-transpose-cache
        reuse-grad-buf-for-mxfp8-param-ag use-torch-optimizer-for-cpu-offload
        no-gradient-reduce-div-fusion overlap-cpu-optimizer-d2h-h2d no-pin-cpu-grads
        no-pin-cpu-params disable-symmetric-registration""",
}
"""Flags without values, likewise."""

UNMODELED: Mapping[str, str] = {
    "cuda-graph-impl": "graphs save launches of kernels",
    "cuda-graph-scope": "graphs save launches of kernels",
    "enable-cuda-graph": "graphs save launches of kernels",
    "external-cuda-graph": "graphs save launches of kernels",
    "deterministic-mode": "deterministic kernels are slower",
    "empty-unused-memory-level": "freeing caches stalls the host",
    "fp32-residual-connection": "residual connections of 4 bytes",
    "no-masked-softmax-fusion": "kernels are taken as fused",
    "no-bias-gelu-fusion": "kernels are taken as fused",
    "no-bias-swiglu-fusion": "kernels are taken as fused",
    "no-bias-dropout-fusion": "kernels are taken as fused",
    "no-rope-fusion": "kernels are taken as fused",
    "no-gradient-accumulation-fusion": "kernels are taken as fused",
    "no-persist-layer-norm": "kernels are taken as fused",
    "cross-entropy-fusion-impl": "the loss is taken as fused",
    "transformer-impl": "layers are taken as TransformerEngine's",
    "moe-use-legacy-grouped-gemm": "experts are taken as grouped",
    "moe-shared-expert-overlap": "shared experts hide no all-to-all",
    "delay-wgrad-compute": "gradients of weights come with those of inputs",
    "defer-embedding-wgrad-compute": "gradients of weights come with those of inputs",
    "disable-tp-comm-overlap-ag": "all of a layer's collectives overlap, or none",
    "disable-tp-comm-overlap-rs": "all of a layer's collectives overlap, or none",
    "disable-tp-comm-split-ag": "all of a layer's collectives overlap, or none",
    "disable-tp-comm-split-rs": "all of a layer's collectives overlap, or none",
    "disable-tp-comm-bulk-dgrad": "all of a layer's collectives overlap, or none",
    "disable-tp-comm-bulk-wgrad": "all of a layer's collectives overlap, or none",
    "tp-comm-overlap-rs-dgrad": "all of a layer's collectives overlap, or none",
    "no-overlap-p2p-communication": "sends between stages overlap",
    "overlap-p2p-communication-warmup-flush": "sends between stages overlap",
    "use-ring-exchange-p2p": "sends between stages are plain",
    "pipeline-model-parallel-comm-backend": "sends between stages are NCCL's",
    "high-priority-stream-groups": "streams have one priority",
    "overlap-param-gather-with-optimizer-step": "parameters are gathered in the forward pass",
    "ddp-reduce-scatter-with-fp32-accumulation": "gradients are reduced by NCCL",
    "use-nccl-ub": "buffers are not registered",
    "use-sharp": "the platform decides about in-network reductions",
    "sharp-enabled-group": "the platform decides about in-network reductions",
    "first-last-layers-bf16": "all layers have one precision",
    "num-layers-at-start-in-bf16": "all layers have one precision",
    "num-layers-at-end-in-bf16": "all layers have one precision",
    "no-fp8-wgrad": "gradients of weights are multiplied in 8 bits",
    "fp4-param-gather": "parameters are gathered in 16 bits",
    "distribute-saved-activations": "each rank keeps its own activations",
    "check-weight-hash-across-dp-replicas-interval": "nothing is compared between replicas",
    "rampup-batch-size": "a step has the full batch",
    "no-rope-freq": "all layers have rotary embeddings",
    "enable-full-sharding-in-hsdp": "outer groups replicate a shard",
    "main-grads-dtype": "gradients have the format of --grad-reduce-in-bf16",
    "main-params-dtype": "master copies have 4 bytes",
    "moe-layer-recompute": "use --recompute-granularity selective --recompute-modules moe",
}
"""Flags that change the time, and what the simulator does instead."""

REFUSED: Mapping[str, str] = {
    "batch-size": "is not a flag of this release",
    "model-parallel-size": "is not a flag of this release",
    "checkpoint-activations": "is not a flag of this release",
    "yaml-cfg": "moves the flags to another file",
    "use-checkpoint-args": "takes the model from a checkpoint",
    "use-mp-args-from-checkpoint-args": "takes the layout from a checkpoint",
    "spec": "names layers by Python code",
    "heterogeneous-layers-config-path": "makes layers unlike each other",
    "heterogeneous-layers-config-encoded-json": "makes layers unlike each other",
    "retro-project-dir": "trains a retrieval model",
    "retro-add-retriever": "trains a retrieval model",
    "encoder-num-layers": "has an encoder",
    "decoder-num-layers": "has an encoder",
    "decoder-seq-length": "has an encoder",
    "perform-rl-step": "is a step of reinforcement learning",
    "skip-train": "trains nothing",
    "sft": "packs samples of its own",
    "is-hybrid-model": "has Mamba layers",
    "hybrid-attention-ratio": "has Mamba layers",
    "hybrid-mlp-ratio": "has Mamba layers",
    "hybrid-override-pattern": "has Mamba layers",
    "hybrid-layer-pattern": "has Mamba layers",
    "experimental-attention-variant": "has attention of another kind",
    "linear-attention-freq": "has attention of another kind",
    "use-legacy-models": "has the layers of an older release",
    "use-tp-pp-dp-mapping": "orders ranks tp, cp, dp inside pp",
    "hierarchical-context-parallel-sizes": "exchanges keys and values in two levels",
    "cpu-offloading-num-layers": "offloads activations",
    "apply-residual-connection-post-layernorm": "adds norms after layers",
    "relative-attention-num-buckets": "has relative position embeddings",
    "relative-attention-max-distance": "has relative position embeddings",
    "moe-use-upcycling": "converts a dense model",
    "moe-extended-tp": "is not a flag of this release",
    "kitchen-config-file": "has a recipe of its own",
    "kitchen-recipe-number": "has a recipe of its own",
    "fp8-quantizer-factory": "names a recipe by Python code",
    "fp4-quantizer-factory": "names a recipe by Python code",
}
"""Flags of jobs that the options of `armillary workload` don't describe, and why."""

FIELDS: Mapping[str, str] = {
    "--accumulate-allreduce-grads-in-fp32": "grad_reduce_in_fp32",
    "--decoder-first-pipeline-num-layers": "num_layers_in_first_pipeline_stage",
    "--decoder-last-pipeline-num-layers": "num_layers_in_last_pipeline_stage",
    "--grad-reduce-in-bf16": "grad_reduce_in_fp32",
    "--group-query-attention": "num_query_groups",
    "--num-experts": "num_moe_experts",
    "--num-layers-per-virtual-pipeline-stage": "virtual_pipeline_model_parallel_size",
    "--num-virtual-stages-per-pipeline-rank": "virtual_pipeline_model_parallel_size",
    "--quick-geglu": "activation_func",
    "--recompute-activations": "recompute_granularity",
    "--squared-relu": "activation_func",
    "--swiglu": "gated_linear_unit",
}
"""Flags that set a field of megatron-core's classes under another name
(megatron/training/arguments.py, `core_transformer_config_from_args` and `validate_args`)."""

SCRIPT = (
    "--ckpt-format", "--global-batch-size", "--make-vocab-size-divisible-by",
    "--max-position-embeddings", "--micro-batch-size", "--no-position-embedding",
    "--padded-vocab-size", "--position-embedding-type", "--seq-length", "--tokenizer-type",
    "--torch-fsdp2-no-reshard-after-forward", "--untie-embeddings-and-output-weights",
    "--use-flash-attn", "--use-rotary-position-embeddings", "--use-torch-fsdp2", "--vocab-size",
)  # fmt: skip
"""Flags of the training script alone, which set no field of a class (megatron/training/arguments.py
at commit 000c4ac2)."""


def reasons(table: Mapping[str, str]) -> dict[str, str]:
    """The flags of a table by reason as they are written, with their reasons."""
    return {f"--{name}": why for why, listed in table.items() for name in listed.split()}


def flags(table: Mapping[str, str]) -> dict[str, str]:
    """A table by name, likewise."""
    return {f"--{name}": why for name, why in table.items()}
