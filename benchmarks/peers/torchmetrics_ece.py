"""The expected calibration error over 15 bins by torchmetrics."""

import sys

import h5py
import torch
from torchmetrics.functional.classification import multiclass_calibration_error

with h5py.File(sys.argv[1]) as file:
    z = torch.from_numpy(file["logits"][()]).float()
    y = torch.from_numpy(file["labels"][()]).long()
error = multiclass_calibration_error(
    z.softmax(dim=1), y, num_classes=z.shape[1], n_bins=15, norm="l1"
)
print(float(error))
