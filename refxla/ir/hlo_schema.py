"""The messages of XLA's HloModuleProto, as our own schema, and the classes that read and write them.

Each message is a table: the field's number, its type, its name; a `*` after the type marks a repeated field. Types are
those of Protocol Buffers or the name of another message here. An `enum` is an int32 on the wire; ENUMS has the names of
its values that occur in text. A map is a repeated entry of key and value. Repeated numbers of fixed width (float,
double, and bool, which is one byte) are `packed`: the raw bytes of all of them, as on the wire, so that NaNs keep their
bits and large constants are read at once.

All fields of the newest XLA known here are named, so that any other field is known to be newer. A message that is only
tested for presence, or that nothing here reads (profiles, device assignments), is `bytes`.
"""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

MESSAGES = {
    "HloProto": """
        1 HloModuleProto hlo_module
        3 bytes buffer_assignment""",
    "DeviceAssignmentProto": """
        1 int32 replica_count
        2 int32 computation_count
        3 ComputationDevice* computation_devices
    """,
    "HloModuleProtoWithConfig": """
        1 HloModuleProto hlo_module
        2 HloModuleConfigProto config
    """,
    "HloModuleConfigProto": """
        1 ProgramShapeProto entry_computation_layout
        4 int64 replica_count
        5 int64 num_partitions
    """,
    "ComputationDevice": "1 int64* replica_device_ids",
    "HloModuleProto": """
        1 string name
        2 string entry_computation_name
        3 HloComputationProto* computations
        4 ProgramShapeProto host_program_shape
        5 int64 id
        6 int64 entry_computation_id
        7 HloScheduleProto schedule
        8 HloInputOutputAliasProto input_output_alias
        11 bool is_dynamic
        12 OpSharding spmd_output_sharding
        14 OpSharding* spmd_parameters_shardings
        16 bool use_auto_spmd_partitioning
        17 StackFrameIndexProto stack_frame_index
        18 HloBufferDonorProto buffer_donor
        10 bytes* cross_program_prefetches
        13 bytes* profile_info
        15 bytes device_assignment
        19 FrontendAttributes frontend_attributes
        20 bytes original_value_recovery_table
        21 string device_type
        22 bytes* payloads
        23 int64 pjrt_id
        24 bytes* debug_attributes
        25 bytes backend_config""",
    "HloScheduleProto": "1 ScheduleEntry* sequences",
    "ScheduleEntry": """
        1 int64 key
        2 InstructionSequence value""",
    "InstructionSequence": "1 int64* instruction_ids",
    "HloInputOutputAliasProto": "1 AliasEntryProto* entries",
    "AliasEntryProto": """
        1 int64* output_shape_index
        2 int64 parameter_number
        3 int64* parameter_shape_index
        4 enum kind""",
    "HloBufferDonorProto": "1 BufferDonorEntryProto* entries",
    "BufferDonorEntryProto": """
        1 int64 parameter_number
        2 int64* parameter_shape_index""",
    "StackFrameIndexProto": """
        1 string* file_names
        2 string* function_names
        3 FileLocation* file_locations
        4 StackFrame* stack_frames""",
    "FileLocation": """
        1 int32 file_name_id
        2 int32 function_name_id
        3 int32 line
        4 int32 column
        5 int32 end_line
        6 int32 end_column""",
    "StackFrame": """
        1 int32 file_location_id
        2 int32 parent_frame_id""",
    "HloComputationProto": """
        1 string name
        2 HloInstructionProto* instructions
        4 ProgramShapeProto program_shape
        5 int64 id
        6 int64 root_id
        7 bool is_fusion_computation
        8 string execution_thread
        9 bytes backend_config""",
    "HloInstructionProto": """
        1 string name
        2 string opcode
        3 ShapeProto shape
        7 OpMetadata metadata
        8 LiteralProto literal
        9 int64 parameter_number
        11 string fusion_kind
        13 int64 tuple_index
        14 int64* dimensions
        15 Window window
        16 ConvolutionDimensionNumbers convolution_dimension_numbers
        17 SliceDimensions* slice_dimensions
        18 int32 exponent_bits
        19 int32 mantissa_bits
        20 int64* dynamic_slice_sizes
        21 PaddingConfig padding_config
        22 bytes outfeed_config
        23 enum distribution
        24 float epsilon
        25 int64 feature_index
        26 int64 channel_id
        27 bytes infeed_config
        28 string custom_call_target
        29 ShapeProto outfeed_shape
        30 DotDimensionNumbers dot_dimension_numbers
        31 enum fft_type
        32 int64* fft_length
        33 GatherDimensionNumbers gather_dimension_numbers
        34 int64* gather_slice_sizes
        35 int64 id
        36 int64* operand_ids
        37 int64* control_predecessor_ids
        38 int64* called_computation_ids
        40 OpSharding sharding
        43 bytes backend_config
        45 int64 all_reduce_id
        47 bool is_host_transfer
        48 ScatterDimensionNumbers scatter_dimension_numbers
        49 ReplicaGroup* replica_groups
        50 int64 feature_group_count
        51 PrecisionConfig precision_config
        52 SourceTarget* source_target_pairs
        54 bytes domain_entry_sharding
        55 bytes domain_exit_sharding
        56 bool constrain_layout
        57 ShapeProto* operand_shapes_with_layout
        58 int64 batch_group_count
        59 TriangularSolveOptions triangular_solve_options
        60 bool is_stable
        61 ParameterReplication parameter_replication
        62 CholeskyOptions cholesky_options
        63 string comparison_direction
        65 bool custom_call_has_side_effect
        66 int64 delta
        67 bool indices_are_sorted
        68 FrontendAttributes frontend_attributes
        69 bool unique_indices
        70 enum rng_algorithm
        71 bool use_global_device_ids
        72 string comparison_type
        73 bool is_cross_program_prefetch
        74 OutputOperandAliasing* output_operand_aliasing
        75 enum padding_type
        76 enum custom_call_schedule
        77 enum custom_call_api_version
        79 string async_execution_thread
        80 int32? cross_program_prefetch_index
        81 int64 k
        82 bytes statistics_viz
        85 bool largest
        87 CollectiveDeviceListProto collective_device_list
        88 OriginalValueProto original_value
        89 bool is_composite
        90 RaggedDotDimensionNumbers ragged_dot_dimension_numbers
        91 ResultAccuracy result_accuracy
        92 IotaReplicaGroupListProto iota_collective_device_list
        93 MeshAxesReplicaGroupListProto mesh_axes_replica_group_list
        94 bool is_reverse
        95 int64 num_carries
        96 enum is_associative
        97 enum conv_kind
        98 bytes sparsity_config
        99 bytes backend_config_payload
        100 bool has_dynamic_root
        101 bytes block_scaling_config
        102 string comparison_order
        103 ShuffleMode shuffle_mode""",
    "ShapeProto": """
        2 enum element_type
        3 int64* dimensions
        4 ShapeProto* tuple_shapes
        5 LayoutProto layout
        6 bool* is_dynamic_dimension""",
    "ProgramShapeProto": """
        1 ShapeProto* parameters
        2 ShapeProto result
        3 string* parameter_names""",
    "LayoutProto": """
        1 int64* minor_to_major
        6 TileProto* tiles
        7 int64 element_size_in_bits
        8 int64 memory_space
        9 enum* dim_level_types
        10 ShapeProto physical_shape
        11 enum index_primitive_type
        12 enum pointer_primitive_type
        13 bool* dim_unique
        14 bool* dim_ordered
        15 int64 dynamic_shape_metadata_prefix_bytes
        16 int64 tail_padding_alignment_in_elements
        17 SplitConfigProto* split_configs""",
    "TileProto": "1 int64* dimensions",
    "SplitConfigProto": """
        1 int64 dimension
        2 int64* split_indices""",
    "LiteralProto": """
        1 ShapeProto shape
        2 packed preds
        3 bytes u8s
        4 int32* s32s
        5 int64* s64s
        6 uint32* u32s
        7 uint64* u64s
        8 packed f32s
        9 packed f64s
        10 LiteralProto* tuple_literals
        11 bytes f16s
        12 packed c64s
        13 bytes bf16s
        14 int64* sparse_indices
        15 bytes s8s
        16 bytes u16s
        17 bytes s16s
        18 packed c128s
        19 bytes f8e5m2s
        20 bytes f8e4m3fns
        21 bytes s4s
        22 bytes u4s
        23 bytes f8e4m3b11fnuzs
        24 bytes f8e5m2fnuzs
        25 bytes f8e4m3fnuzs
        26 bytes s2s
        27 bytes u2s
        28 bytes f8e4m3s
        29 bytes f8e3m4s
        30 bytes s1s
        31 bytes u1s
        32 bytes f4e2m1fns
        33 bytes f8e8m0fnus
        34 int32* dynamic_sizes
        35 bytes f6e3m2fns
        36 bytes f6e2m3fns""",
    "OpMetadata": """
        1 string op_type
        2 string op_name
        3 string source_file
        4 int32 source_line
        5 enum* profile_type
        8 int64 size_of_generated_code_in_bytes
        9 int64 size_of_memory_working_set_in_bytes
        10 bytes profile_info
        12 string deduplicated_name
        15 int32 stack_frame_id
        16 string scheduling_name
        17 int32 source_end_line
        18 int32 source_column
        19 int32 source_end_column
        20 bytes metadata_payload""",
    "Window": "1 WindowDimension* dimensions",
    "WindowDimension": """
        1 int64 size
        2 int64 stride
        3 int64 padding_low
        4 int64 padding_high
        5 int64 window_dilation
        6 int64 base_dilation
        7 bool window_reversal""",
    "ConvolutionDimensionNumbers": """
        3 int64 kernel_input_feature_dimension
        4 int64 kernel_output_feature_dimension
        6 int64* kernel_spatial_dimensions
        7 int64 input_batch_dimension
        8 int64 input_feature_dimension
        9 int64 output_batch_dimension
        10 int64 output_feature_dimension
        11 int64* input_spatial_dimensions
        12 int64* output_spatial_dimensions""",
    "SliceDimensions": """
        1 int64 start
        2 int64 limit
        3 int64 stride""",
    "PaddingConfig": "1 PaddingConfigDimension* dimensions",
    "PaddingConfigDimension": """
        1 int64 edge_padding_low
        2 int64 edge_padding_high
        3 int64 interior_padding""",
    "DotDimensionNumbers": """
        1 int64* lhs_contracting_dimensions
        2 int64* rhs_contracting_dimensions
        3 int64* lhs_batch_dimensions
        4 int64* rhs_batch_dimensions""",
    "RaggedDotDimensionNumbers": """
        1 DotDimensionNumbers dot_dimension_numbers
        2 int64* lhs_ragged_dimensions
        3 int64* rhs_group_dimensions""",
    "GatherDimensionNumbers": """
        1 int64* offset_dims
        2 int64* collapsed_slice_dims
        3 int64* start_index_map
        4 int64 index_vector_dim
        5 int64* operand_batching_dims
        6 int64* start_indices_batching_dims""",
    "ScatterDimensionNumbers": """
        1 int64* update_window_dims
        2 int64* inserted_window_dims
        3 int64* scatter_dims_to_operand_dims
        4 int64 index_vector_dim
        5 int64* input_batching_dims
        6 int64* scatter_indices_batching_dims""",
    "PrecisionConfig": """
        1 enum* operand_precision
        2 enum algorithm""",
    "ShuffleMode": "1 Rotate rotate",
    "Rotate": "1 int64* shifts",
    "TriangularSolveOptions": """
        1 bool left_side
        2 bool lower
        3 bool unit_diagonal
        4 enum transpose_a""",
    "CholeskyOptions": "1 bool lower",
    "ResultAccuracy": """
        1 enum mode
        2 Tolerance tolerance""",
    "Tolerance": """
        1 double atol
        2 double rtol
        3 int64 ulps""",
    "ParameterReplication": "1 bool* replicated_at_leaf_buffers",
    "OutputOperandAliasing": """
        1 int64* output_shape_index
        2 int64 operand_index
        3 int64* operand_shape_index""",
    "FrontendAttributes": "1 FrontendAttribute* map",
    "FrontendAttribute": """
        1 string key
        2 string value""",
    "OpSharding": """
        1 enum type
        2 ShapeProto tile_shape
        3 int64* tile_assignment_dimensions
        4 int64* tile_assignment_devices
        5 OpSharding* tuple_shardings
        6 bool replicate_on_last_tile_dim
        7 OpMetadata* metadata
        8 enum* last_tile_dims
        9 int64* iota_reshape_dims
        10 int32* iota_transpose_perm
        11 bool is_shard_group
        12 int64 shard_group_id
        13 enum shard_group_type
        14 NamedShardingProto named_sharding""",
    "NamedShardingProto": """
        2 MeshProto mesh
        3 DimensionSharding* dim_shardings
        4 AxisRefProto* replicated_axes
        5 AxisRefProto* unreduced_axes
        6 OpMetadata* metadata
        7 AxisRefProto* manual_axes
        8 enum reduction_op""",
    "DimensionSharding": """
        1 AxisRefProto* axes
        2 bool is_closed""",
    "ReplicaGroup": "1 int64* replica_ids",
    "SourceTarget": """
        1 int64 source
        2 int64 target""",
    "CollectiveDeviceListProto": """
        1 ReplicaGroup* replica_groups
        2 IotaReplicaGroupListProto iota_replica_group_list""",
    "MeshAxesReplicaGroupListProto": """
        1 MeshProto mesh
        2 AxisRefProto* axes""",
    "MeshProto": """
        1 MeshAxis* axes
        2 int64* device_ids
        3 MeshIotaProto iota_transform""",
    "MeshAxis": """
        1 string name
        2 int64 size""",
    "MeshIotaProto": """
        1 int64* reshape_dims
        2 int64* transpose_perm""",
    "AxisRefProto": """
        1 int64 mesh_axis_index
        2 SubAxis sub_axis_info""",
    "SubAxis": """
        1 int64 pre_size
        2 int64 size""",
    "IotaReplicaGroupListProto": """
        1 int64 num_replica_groups
        2 int64 num_devices_per_group
        3 int64* iota_reshape_dims
        4 int32* iota_transpose_perm""",
    "OriginalValueProto": """
        1 OriginalValueElementProto* elements
        2 bool is_synthetic_call
        3 string call_hierarchy""",
    "OriginalValueElementProto": """
        1 int64* shape_index
        2 OriginalArrayProto original_array""",
    "OriginalArrayProto": """
        1 string instruction_name
        2 int64* shape_index""",
}

# The values of enumerations as spelled in HLO text, in the order of their numbers from 0 on.
ENUMS = {
    "conv_kind": ("unset", "fprop", "dgrad", "wgrad"),
    "distribution": ("rng_invalid", "rng_uniform", "rng_normal"),
    "rng_algorithm": ("rng_default", "rng_three_fry", "rng_philox"),
    "fft_type": ("FFT", "IFFT", "RFFT", "IRFFT"),
    "transpose_a": ("TRANSPOSE_INVALID", "NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"),
    "padding_type": ("PADDING_INVALID", "PADDING_VALID", "PADDING_SAME"),
    "custom_call_schedule": ("SCHEDULE_NONE", "SCHEDULE_LATEST", "SCHEDULE_EARLIEST"),
    "custom_call_api_version": (
        "API_VERSION_UNSPECIFIED",
        "API_VERSION_ORIGINAL",
        "API_VERSION_STATUS_RETURNING",
        "API_VERSION_STATUS_RETURNING_UNIFIED",
        "API_VERSION_TYPED_FFI",
    ),
    "operand_precision": ("default", "high", "highest"),
    "algorithm": (
        "unset",
        "dot_any_f8_any_f8_f32",
        "dot_any_f8_any_f8_f32_fast_accum",
        "dot_f16_f16_f16",
        "dot_f16_f16_f32",
        "dot_bf16_bf16_bf16",
        "dot_bf16_bf16_f32",
        "dot_bf16_bf16_f32_x3",
        "dot_bf16_bf16_f32_x6",
        "dot_tf32_tf32_f32",
        "dot_tf32_tf32_f32_x3",
        "dot_f32_f32_f32",
        "dot_f64_f64_f64",
        "dot_bf16_bf16_f32_x9",
        "dot_bf16_bf16_fp8x3",
        "dot_bf16_bf16_fp8x4",
    ),
    "kind": ("undefined-alias", "may-alias", "must-alias"),
    "sharding_type": ("replicated", "maximal", "tuple", "other", "manual", "unknown", "unreduced"),
    "reduction_op": ("sum", "max", "min"),
    "shard_group_type": ("shard_as", "shard_like"),
}

_SCALARS = {
    "int32": descriptor_pb2.FieldDescriptorProto.TYPE_INT32,
    "enum": descriptor_pb2.FieldDescriptorProto.TYPE_INT32,
    "int64": descriptor_pb2.FieldDescriptorProto.TYPE_INT64,
    "uint32": descriptor_pb2.FieldDescriptorProto.TYPE_UINT32,
    "uint64": descriptor_pb2.FieldDescriptorProto.TYPE_UINT64,
    "float": descriptor_pb2.FieldDescriptorProto.TYPE_FLOAT,
    "double": descriptor_pb2.FieldDescriptorProto.TYPE_DOUBLE,
    "bool": descriptor_pb2.FieldDescriptorProto.TYPE_BOOL,
    "string": descriptor_pb2.FieldDescriptorProto.TYPE_STRING,
    "bytes": descriptor_pb2.FieldDescriptorProto.TYPE_BYTES,
    "packed": descriptor_pb2.FieldDescriptorProto.TYPE_BYTES,
}
_PACKAGE = "refxla.hlo"  # not XLA's own: both may be in one process, each in its own pool


def _file() -> descriptor_pb2.FileDescriptorProto:
    """The schema as the description from which the protobuf package builds classes."""
    file = descriptor_pb2.FileDescriptorProto(name="refxla/hlo.proto", package=_PACKAGE, syntax="proto3")
    for name, table in MESSAGES.items():
        message = file.message_type.add(name=name)
        for row in table.strip().splitlines():
            number, kind, field_name = row.split()
            field = message.field.add(name=field_name, number=int(number))
            repeated = kind.endswith("*")
            if kind.endswith("?"):
                field.proto3_optional, field.oneof_index = True, len(message.oneof_decl)
                message.oneof_decl.add(name=f"_{field_name}")
            kind = kind.rstrip("*?")
            field.label = field.LABEL_REPEATED if repeated else field.LABEL_OPTIONAL
            if kind in _SCALARS:
                field.type = _SCALARS[kind]
            else:
                field.type = field.TYPE_MESSAGE
                field.type_name = f".{_PACKAGE}.{kind}"
    return file


def _classes() -> dict[str, Any]:
    pool = descriptor_pool.DescriptorPool()
    pool.Add(_file())
    descriptors = (pool.FindMessageTypeByName(f"{_PACKAGE}.{name}") for name in MESSAGES)
    return {d.name: message_factory.GetMessageClass(d) for d in descriptors}


CLASSES = _classes()
HloProto, HloModuleProto, HloComputationProto = (
    CLASSES[name] for name in ("HloProto", "HloModuleProto", "HloComputationProto")
)
