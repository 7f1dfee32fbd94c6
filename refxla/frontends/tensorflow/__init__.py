"""Functions of TensorFlow and models of Keras.

`function.py` compiles a function whose whole graph has HLO. `clustered.py` handles one with operations that have none:
its graph (`graph.py`) is cut (`clustering.py`) into segments (`partition.py`), some of which refxla compiles, while
TensorFlow runs the others. `dynamic_sizes.py` says which operations of either are lowered correctly if sizes are known
only at run time. `keras.py` gives a Keras model such functions for its steps.
"""

from .function import TensorFlowFunction, compile_tensorflow

__all__ = ["TensorFlowFunction", "compile_tensorflow"]
