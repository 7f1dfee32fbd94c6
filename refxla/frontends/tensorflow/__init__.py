"""Functions of TensorFlow and models of Keras.

`function.py` compiles a function whose whole graph has HLO. `clustered.py` takes one that has operations without: its
graph (`graph.py`) is cut (`clustering.py`) into segments (`partition.py`), of which refxla compiles some and TensorFlow
runs the others. `dynamic_sizes.py` says what of either is lowered right where sizes are known only at run time.
`keras.py` gives a Keras model such functions for its steps.
"""

from .function import TensorFlowFunction, compile_tensorflow

__all__ = ["TensorFlowFunction", "compile_tensorflow"]
