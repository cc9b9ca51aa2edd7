"""What test_recompute.py runs in a process of its own: on two devices, or on JAX.

python -m tests.layers.recompute_elsewhere mirrored|jax
"""

import sys

if __name__ == "__main__":
    if sys.argv[1] == "mirrored":
        import tensorflow as tf

        cpu = tf.config.list_physical_devices("CPU")[0]
        tf.config.set_logical_device_configuration(
            cpu, [tf.config.LogicalDeviceConfiguration()] * 2
        )
    import keras_bert_impl as kbi
    from tests.layers.test_recompute import check_same_steps

    with kbi.distribution_scope("mirrored" if sys.argv[1] == "mirrored" else "none"):
        check_same_steps()
