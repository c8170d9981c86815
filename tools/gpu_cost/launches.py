"""Which launch functions of src/ops/cuda the model has, and which it leaves out."""

# By the source that launches.
MODELLED = {
    "launch_attention": "attention/attention.cu", "launch_attention_codes": "attention/attention_codes.cu",
    "launch_attention_merge": "attention/attention_merge.cu",
    "launch_cut_patches": "layers/cut_patches.cu",
    "launch_library_product": "libraries/cublaslt_library.cc",
    "launch_qkv": "products/qkv.cu", "launch_gemm": "products/gemm.cu", "launch_few_gemm": "products/few_gemm.cu",
    "launch_gemm_bytes": "products/gemm_bytes.cu", "launch_gemm_codes": "products/gemm_codes.cu",
    "launch_gemm_e4m3": "products/gemm_e4m3.cu", "launch_finish_product": "products/finish_product.cu",
    "launch_round_e4m3": "products/round_e4m3.cu",
    "launch_norm": "rows/norm.cu", "launch_gated": "rows/gated.cu", "launch_embed": "rows/embed.cu",
    "launch_mix_rows": "rows/mix_rows.cu", "launch_row_stats": "rows/row_stats.cu", "launch_sample": "rows/sample.cu",
    "launch_rope_table": "rows/rope_table.cu", "launch_round_rows": "rows/round_rows.cu",
}
LEFT_OUT = {
    "once a step or less, of a row's numbers": ["launch_add", "launch_copy_rows", "launch_count_prompt", "launch_softcap", "launch_order_cols"],
    "f32, which is for tests and odd shapes": ["launch_attention_f32", "launch_gemm_f32", "launch_gemm_codes_f32", "launch_grouped_gemm_f32",
                                              "launch_grouped_gemm_codes_f32"],
    "experts": ["launch_grouped_gemm", "launch_grouped_gemm_bytes", "launch_grouped_gemm_codes", "launch_grouped_gemm_e4m3", "launch_route",
                "launch_sort_visits", "launch_combine"],
    "states": ["launch_causal_conv", "launch_delta_rule"],
    "codes dequantised for the library, and embeddings from codes": ["launch_dequantize_codes", "launch_embed_codes"],
    "while weights are loaded": ["launch_make_dummy_values"],
    "templates of those above": ["launch_attention_form", "launch_attention_tiles", "launch_groups", "launch_rows", "launch_tiles"],
}
