"""Which launch functions of src/ops/cuda the model has, and which it leaves out."""

# By the source that launches.
MODELLED = {
    "launch_norm": "norm.cu", "launch_qkv": "qkv.cu", "launch_gated": "gated.cu", "launch_embed": "embed.cu", "launch_mix_rows": "mix_rows.cu",
    "launch_cut_patches": "cut_patches.cu", "launch_row_stats": "row_stats.cu", "launch_sample": "sample.cu", "launch_gemm": "gemm.cu",
    "launch_few_gemm": "few_gemm.cu",
    "launch_gemm_bytes": "gemm_bytes.cu", "launch_gemm_codes": "gemm_codes.cu", "launch_gemm_e4m3": "gemm_e4m3.cu",
    "launch_library_product": "cublaslt_library.cc", "launch_attention": "attention.cu", "launch_attention_codes": "attention_codes.cu",
    "launch_attention_merge": "attention_merge.cu", "launch_rope_table": "rope_table.cu", "launch_finish_product": "finish_product.cu",
    "launch_round_rows": "round_rows.cu", "launch_round_e4m3": "round_e4m3.cu",
}
LEFT_OUT = {
    "once a step or less, of a row's numbers": ["launch_add", "launch_copy_rows", "launch_count_prompt", "launch_softcap", "launch_order_cols"],
    "f32, which is for tests and odd shapes": ["launch_attention_f32", "launch_gemm_f32", "launch_gemm_codes_f32", "launch_grouped_gemm_f32",
                                              "launch_grouped_gemm_codes_f32"],
    "experts": ["launch_grouped_gemm", "launch_grouped_gemm_bytes", "launch_grouped_gemm_codes", "launch_grouped_gemm_e4m3", "launch_route",
                "launch_sort_visits", "launch_combine"],
    "states": ["launch_causal_conv", "launch_delta_rule"],
    "codes dequantised for the library, and embeddings from codes": ["launch_widen_codes", "launch_embed_codes"],
    "while weights are loaded": ["launch_make_numbers"],
    "templates of those above": ["launch_attention_form", "launch_attention_tiles", "launch_groups", "launch_rows", "launch_tiles"],
}
