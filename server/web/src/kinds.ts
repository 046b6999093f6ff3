// The names of schemas/common.schema.json.
export const kinds = [
  "matmul_all_reduce",
  "matmul_reduce_scatter",
  "all_gather_matmul",
  "matmul_all_to_all",
  "all_to_all_matmul",
  "embedding_all_to_all",
];
export const dtypes = ["f32", "f16", "bf16", "i8", "f8e4m3"];
