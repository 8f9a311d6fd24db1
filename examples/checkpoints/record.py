"""Records the checkpoints in this folder, and what their models predict. It needs TorchRec 1.9.2
and FBGEMM.

    python examples/checkpoints/record.py

`dlrm.pt` is as `dlrm_s_pytorch.py --save-model` writes it (facebookresearch/dlrm): names, order of
pairs and keys are those of its source. `torchrec.pt` and `torchrec-dcn/` are TorchRec's own
models."""

from __future__ import annotations

import json
import shutil
from itertools import pairwise
from pathlib import Path

import torch
from torch import nn
from torch.distributed.checkpoint.state_dict_saver import save
from torchrec import EmbeddingBagCollection, EmbeddingBagConfig, KeyedJaggedTensor
from torchrec.models.dlrm import DLRM, DLRM_DCN, DLRMTrain

HERE = Path(__file__).parent
ROWS, DIM, DENSE, BOTTOM, TOP = (10, 11, 12), 4, 3, [5, 4], [6, 1]
COUNTS = torch.linspace(-1, 2, 4 * DENSE).view(4, DENSE)
INDICES = torch.tensor([[0, 3, 9, 9], [10, 0, 2, 5], [11, 1, 1, 7]])


class Open(nn.Module):
    """The model of `dlrm_s_pytorch.py`."""

    def __init__(self) -> None:
        super().__init__()
        self.emb_l = nn.ModuleList(nn.EmbeddingBag(rows, DIM, mode="sum") for rows in ROWS)
        features = len(ROWS) + 1
        self.bot_l = self.mlp([DENSE, *BOTTOM], nn.ReLU())
        self.top_l = self.mlp([DIM + features * (features - 1) // 2, *TOP], nn.Sigmoid())

    def mlp(self, sizes: list[int], last: nn.Module) -> nn.Sequential:
        """Linear layers with ReLU between them, and `last` at the end."""
        layers: list[nn.Module] = []
        for inputs, outputs in pairwise(sizes):
            layers += [nn.Linear(inputs, outputs), nn.ReLU()]
        return nn.Sequential(*layers[:-1], last)

    def forward(self) -> torch.Tensor:
        """The logits of the recorded samples."""
        x = self.bot_l(COUNTS)
        ly = [table(row.view(-1, 1)) for table, row in zip(self.emb_l, INDICES, strict=True)]
        joined = torch.cat([x, *ly], dim=1).view(len(x), -1, DIM)
        products = torch.bmm(joined, joined.transpose(1, 2))
        features = joined.shape[1]
        li = torch.tensor([i for i in range(features) for _ in range(i)])
        lj = torch.tensor([j for i in range(features) for j in range(i)])
        clicks = self.top_l(torch.cat([x, products[:, li, lj]], dim=1))
        return torch.logit(clicks).view(-1)


def collection() -> EmbeddingBagCollection:
    """TorchRec's tables of the recorded models."""
    return EmbeddingBagCollection(
        tables=[
            EmbeddingBagConfig(
                name=f"t_c{number}",
                embedding_dim=DIM,
                num_embeddings=rows,
                feature_names=[f"c{number}"],
            )
            for number, rows in enumerate(ROWS)
        ]
    )


def main() -> None:
    """Writes the files."""
    torch.manual_seed(1)
    found = {}
    batch = KeyedJaggedTensor.from_lengths_sync(
        [f"c{number}" for number in range(len(ROWS))],
        INDICES.reshape(-1),
        torch.ones(INDICES.numel(), dtype=torch.int32),
    )
    with torch.no_grad():
        model = Open()
        found["dlrm"] = model().tolist()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        torch.save(
            {
                "iter": 7, "epoch": 0, "nepochs": 1, "nbatches": 7, "nbatches_test": 1,
                "train_loss": 0.5, "total_loss": 0.5,
                "state_dict": model.state_dict(), "opt_state_dict": optimizer.state_dict(),
            },
            HERE / "dlrm.pt",
        )  # fmt: skip
        theirs = DLRM(collection(), DENSE, BOTTOM, TOP)
        found["torchrec"] = theirs(COUNTS, batch).view(-1).tolist()
        torch.save(DLRMTrain(theirs).state_dict(), HERE / "torchrec.pt")
        deep = DLRM_DCN(collection(), DENSE, BOTTOM, TOP, 2, 3)
        for each in deep.inter_arch.crossnet.bias:
            each.normal_()
        found["torchrec-dcn"] = deep(COUNTS, batch).view(-1).tolist()
        place = HERE / "torchrec-dcn"
        shutil.rmtree(place, ignore_errors=True)
        save({"model": deep.state_dict()}, checkpoint_id=place)
    found["counts"], found["indices"] = COUNTS.tolist(), INDICES.tolist()
    (HERE / "predictions.json").write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
