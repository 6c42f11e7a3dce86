"""A small writer of ONNX graphs. Values are named by their number; constants are float64 unless told otherwise."""

from __future__ import annotations

from typing import Any

import numpy as np

from dperm.errors import Unsupported

OPSET, ML_OPSET, IR_VERSION = 17, 2, 8  # old enough for runtimes of 2022


def onnx_package() -> Any:
    """The package ``onnx``, or an error that says how to get it."""
    try:
        import onnx
    except ImportError:
        onnx = None
    if onnx is None:
        raise Unsupported("export to ONNX needs the package onnx: pip install 'dperm[onnx]'.")
    return onnx


class Graph:
    """Nodes in their order, constants, and what goes in and out."""

    def __init__(self) -> None:
        self._onnx = onnx_package()
        self._nodes: list[Any] = []
        self._constants: list[Any] = []
        self._inputs: list[Any] = []
        self._outputs: list[Any] = []

    def read(self, name: str, dtype: Any, width: int) -> str:
        """An input of any number of rows, and ``width`` columns."""
        self._inputs.append(self._value(name, dtype, (None, width)))
        return name

    def give(self, name: str, value: str, dtype: Any, shape: tuple[int | None, ...]) -> None:
        """An output."""
        self._nodes.append(self._onnx.helper.make_node("Identity", [value], [name]))
        self._outputs.append(self._value(name, dtype, shape))

    def constant(self, value: Any, dtype: Any = np.float64) -> str:
        name = f"dperm/constant {len(self._constants)}"
        array = np.asarray(value, dtype=dtype)
        self._constants.append(self._onnx.numpy_helper.from_array(array, name))
        return name

    def op(self, kind: str, *inputs: str | float, domain: str = "", **attributes: Any) -> str:
        """The name of what an operation gives; a number among its inputs is a constant."""
        named = [each if isinstance(each, str) else self.constant(each) for each in inputs]
        name = f"dperm/value {len(self._nodes)}"
        self._nodes.append(self._onnx.helper.make_node(kind, named, [name], domain=domain, **attributes))
        return name

    def to(self, value: str, dtype: Any) -> str:
        return self.op("Cast", value, to=self._type(dtype))

    def model(self, description: str, properties: dict[str, str]) -> Any:
        """The whole, checked."""
        helper = self._onnx.helper
        graph = helper.make_graph(self._nodes, "dperm", self._inputs, self._outputs, self._constants)
        opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid("ai.onnx.ml", ML_OPSET)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION, producer_name="dperm")
        model.doc_string = description
        helper.set_model_props(model, properties)
        self._onnx.checker.check_model(model, full_check=True)
        return model

    def _type(self, dtype: Any) -> int:
        return int(self._onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))

    def _value(self, name: str, dtype: Any, shape: tuple[int | None, ...]) -> Any:
        kind = self._onnx.TensorProto.STRING if dtype is str else self._type(dtype)
        return self._onnx.helper.make_tensor_value_info(name, kind, shape)
