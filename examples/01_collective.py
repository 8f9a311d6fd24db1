"""How long does an all-reduce take, and which bandwidth does it reach? The columns are those of
nccl-tests."""

import armillary as arm

platform = arm.Platform.load("dgx-h100-16n")
print(f"{platform.name}: {platform.npus} NPUs")
print(arm.collective("all_reduce", [2**20, 2**25, 2**30], platform))
