"""What tensors are made from and described by: arrays, texts, slices, memory of a device, shapes, operators."""
