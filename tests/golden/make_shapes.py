#!/usr/bin/env python3
"""make_shapes.py OUT [NAME...]: descriptions for tests/data/shapes, with the logits that Hugging Face transformers gives.

Every family in sizes that are convenient for nobody. Run by hand (needs PyPI torch and transformers), its output is kept;
shapes.py makes the models of it again. What is compared is read from the folder that shapes.py writes, by transformers here
and by tenon in the tests."""
import copy
import json
import os
import sys
import tempfile

import torch
import transformers

import shapes

TOKENS = 30
COMMON = dict(vocab_size=83, hidden_size=42, intermediate_size=50, num_hidden_layers=3, num_attention_heads=6, num_key_value_heads=2,
              max_position_embeddings=64, bos_token_id=1, eos_token_id=2, pad_token_id=0)


def rope(kind, **more):
    return dict(rope_type=kind, rope_theta=more.pop("theta", 10000.0), **more)


YARN = rope("yarn", factor=4.0, original_max_position_embeddings=16)
MLA = dict(kv_lora_rank=18, qk_nope_head_dim=10, qk_rope_head_dim=6, v_head_dim=13, moe_intermediate_size=21)
DELTA = dict(linear_conv_kernel_dim=4, linear_key_head_dim=10, linear_value_head_dim=10, linear_num_key_heads=2,
             linear_num_value_heads=6, head_dim=14, num_attention_heads=6, num_key_value_heads=3)
LONG_SHORT = dict(long_factor=[1.5, 2.9, 4.1, 5.3], short_factor=[1.0, 1.1, 1.3, 1.7])


def old(config):
    """The keys of transformers before 5: rope_theta, rope_scaling, torch_dtype."""
    parameters = config.pop("rope_parameters")
    config["torch_dtype"] = config.pop("dtype", "bfloat16")
    if "full_attention" in parameters:
        config["rope_local_base_freq"] = parameters["sliding_attention"]["rope_theta"]
        parameters = parameters["full_attention"]
    config["rope_theta"] = parameters.pop("rope_theta")
    if "partial_rotary_factor" in parameters:
        config["partial_rotary_factor"] = parameters.pop("partial_rotary_factor")
    config["rope_scaling"] = None if parameters["rope_type"] == "default" else parameters
    config.pop("layer_types", None)


def old_type(config):
    old(config)
    config["rope_scaling"]["type"] = config["rope_scaling"].pop("rope_type")


def without(*keys):
    return lambda config: [config.pop(key) for key in keys]


# name: (configuration class, its settings, a change of config.json or None, dtype, number of files)
MODELS = {
    "gpt2-odd": ("GPT2", dict(n_embd=42, n_head=3, n_layer=2, n_positions=37, n_inner=50), None, "F32", 1),
    "gpt2-inverse": ("GPT2", dict(n_embd=30, n_head=5, n_layer=3, n_positions=40, scale_attn_by_inverse_layer_idx=True,
                                  tie_word_embeddings=False), None, "BF16", 1),
    "llama-one-kv": ("Llama", dict(hidden_size=45, num_attention_heads=5, num_key_value_heads=1, head_dim=6, vocab_size=67), old, "BF16", 1),
    "llama-groups3": ("Llama", dict(num_attention_heads=9, num_key_value_heads=3, hidden_size=54, vocab_size=97,
                                    tie_word_embeddings=True), old, "F16", 1),
    "llama-rope3": ("Llama", dict(head_dim=18, rope_parameters=rope("llama3", factor=8.0, low_freq_factor=1.0,
                                  high_freq_factor=4.0, original_max_position_embeddings=20, theta=500000.0)), old, "BF16", 3),
    "llama-relu": ("Llama", dict(hidden_size=30, num_attention_heads=1, num_key_value_heads=1, head_dim=2, hidden_act="relu",
                                 num_hidden_layers=2, attention_bias=True), without("mlp_bias"), "F32", 1),
    "llama-linear": ("Llama", dict(head_dim=10, mlp_bias=True, rope_parameters=rope("linear", factor=2.5)), old_type, "F32", 1),
    "llama-yarn": ("Llama", dict(head_dim=14, rope_parameters=YARN), old_type, "BF16", 1),
    "llama-yarn-betas": ("Llama", dict(head_dim=22, rope_parameters=dict(YARN, beta_fast=4.0, beta_slow=0.5, mscale=0.8,
                                       mscale_all_dim=0.6)), None, "BF16", 1),
    "llama-yarn-fast": ("Llama", dict(head_dim=22, rope_parameters=dict(YARN, beta_fast=6.0, beta_slow=0.5)), None, "BF16", 1),
    "qwen3-yarn-factor": ("Qwen3", dict(head_dim=18, rope_parameters=dict(YARN, attention_factor=0.8)), None, "BF16", 1),
    "llama-yarn-exact": ("Llama", dict(head_dim=26, rope_parameters=dict(YARN, truncate=False, attention_factor=1.2)), None,
                         "BF16", 1),
    "llama-long": ("Llama", dict(head_dim=8, rope_parameters=rope("longrope", factor=3.0, original_max_position_embeddings=20,
                                 **LONG_SHORT)), None, "BF16", 1),
    "mistral-wide-heads": ("Mistral", dict(head_dim=16, hidden_size=45, num_attention_heads=5, num_key_value_heads=1, sliding_window=7), None,
                           "BF16", 1),
    "mistral-full": ("Mistral", dict(head_dim=12, sliding_window=None), old, "BF16", 2),
    "mixtral-odd": ("Mixtral", dict(num_local_experts=5, num_experts_per_tok=3, sliding_window=9, head_dim=10,
                                    tie_word_embeddings=True), old, "BF16", 1),
    "granite-odd": ("Granite", dict(num_attention_heads=3, num_key_value_heads=1, hidden_size=42, attention_bias=True,
                                    embedding_multiplier=12.0, attention_multiplier=0.0625, residual_multiplier=0.22,
                                    logits_scaling=0.3), old, "BF16", 1),
    "smollm3-listed": ("SmolLM3", dict(num_hidden_layers=4, no_rope_layers=[1, 0, 0, 1], hidden_size=42, num_attention_heads=3,
                                       num_key_value_heads=1, tie_word_embeddings=False), None, "BF16", 1),
    "smollm3-interval": ("SmolLM3", dict(num_hidden_layers=4, no_rope_layer_interval=3, hidden_size=48, rope_parameters=YARN),
                         None, "BF16", 1),
    "qwen2-one-kv": ("Qwen2", dict(hidden_size=50, num_attention_heads=5, num_key_value_heads=1, tie_word_embeddings=True),
                     old, "BF16", 1),
    "qwen2-yarn-window": ("Qwen2", dict(hidden_size=54, num_attention_heads=9, num_key_value_heads=3, use_sliding_window=True,
                          sliding_window=5, max_window_layers=2, rope_parameters=YARN), old, "BF16", 1),
    "qwen2moe-mixed": ("Qwen2Moe", dict(hidden_size=42, num_attention_heads=3, num_key_value_heads=1, num_experts=7,
                       num_experts_per_tok=3, moe_intermediate_size=18, shared_expert_intermediate_size=26, norm_topk_prob=True,
                       decoder_sparse_step=2), old, "BF16", 1),
    "qwen2moe-window": ("Qwen2Moe", dict(hidden_size=54, num_attention_heads=9, num_key_value_heads=3, num_experts=4,
                        num_experts_per_tok=2, moe_intermediate_size=13, shared_expert_intermediate_size=9, mlp_only_layers=[0],
                        use_sliding_window=True, sliding_window=5, max_window_layers=1), None, "F16", 1),
    "qwen3-odd": ("Qwen3", dict(hidden_size=45, num_attention_heads=9, num_key_value_heads=3, head_dim=6, tie_word_embeddings=True,
                  attention_bias=True), old, "BF16", 1),
    "qwen3-listed": ("Qwen3", dict(head_dim=14, use_sliding_window=True, sliding_window=6, max_window_layers=1,
                     layer_types=["sliding_attention", "full_attention", "sliding_attention"], rope_parameters=YARN), None,
                     "BF16", 1),
    "qwen3moe-plain": ("Qwen3Moe", dict(hidden_size=45, num_attention_heads=5, num_key_value_heads=1, head_dim=10, num_experts=9,
                       num_experts_per_tok=4, moe_intermediate_size=14, norm_topk_prob=False), old, "BF16", 1),
    "qwen3moe-window": ("Qwen3Moe", dict(num_attention_heads=6, num_key_value_heads=3, head_dim=18, num_experts=6,
                        num_experts_per_tok=1, moe_intermediate_size=22, norm_topk_prob=True, use_sliding_window=True,
                        sliding_window=9, decoder_sparse_step=2, mlp_only_layers=[1]), None, "BF16", 2),
    "qwen3next-odd": ("Qwen3Next", dict(DELTA, num_hidden_layers=4, partial_rotary_factor=0.5, num_experts=5, num_experts_per_tok=2,
                      moe_intermediate_size=18, shared_expert_intermediate_size=14, norm_topk_prob=False,
                      linear_value_head_dim=14), None, "BF16", 1),
    "qwen3next-dense": ("Qwen3Next", dict(DELTA, num_hidden_layers=3, num_experts=5, num_experts_per_tok=2, head_dim=16,
                        moe_intermediate_size=18, shared_expert_intermediate_size=14, mlp_only_layers=[1], linear_num_key_heads=1,
                        linear_num_value_heads=5, linear_conv_kernel_dim=3, layer_types=["linear_attention", "full_attention",
                        "linear_attention"], partial_rotary_factor=0.5), None, "BF16", 1),
    "qwen35-odd": ("Qwen3_5Text", dict(DELTA, num_hidden_layers=4, linear_num_key_heads=3, linear_num_value_heads=9, head_dim=16,
                   linear_key_head_dim=6, linear_conv_kernel_dim=5, tie_word_embeddings=True), None, "BF16", 1),
    "qwen35-plain-heads": ("Qwen3_5Text", dict(DELTA, num_hidden_layers=3, linear_num_value_heads=2, num_attention_heads=5,
                           num_key_value_heads=1, head_dim=12, layer_types=["full_attention", "linear_attention",
                           "linear_attention"], rope_parameters=rope("default", partial_rotary_factor=0.5)), None, "F32", 1),
    "qwen35-biased": ("Qwen3_5Text", dict(DELTA, hidden_size=38, num_hidden_layers=3, linear_num_key_heads=1, linear_num_value_heads=3,
                      num_attention_heads=7, num_key_value_heads=1, head_dim=12, attention_bias=True, layer_types=[
                      "linear_attention", "full_attention", "full_attention"], linear_conv_kernel_dim=2), None, "F16", 2),
    "qwen35moe-odd": ("Qwen3_5MoeText", dict(DELTA, num_hidden_layers=4, head_dim=8, num_experts=6, num_experts_per_tok=3,
                      moe_intermediate_size=17, shared_expert_intermediate_size=23), None, "BF16", 1),
    "gemma2-odd": ("Gemma2", dict(head_dim=10, num_attention_heads=3, num_key_value_heads=1, sliding_window=6,
                   query_pre_attn_scalar=17, attn_logit_softcapping=5.0, final_logit_softcapping=12.0), old, "BF16", 1),
    "gemma2-uncapped": ("Gemma2", dict(head_dim=22, num_hidden_layers=2, sliding_window=40, query_pre_attn_scalar=22,
                        attn_logit_softcapping=None, final_logit_softcapping=None, hidden_activation="gelu_pytorch_tanh"), None,
                        "BF16", 1),
    "gemma3-odd": ("Gemma3Text", dict(head_dim=10, num_attention_heads=3, num_key_value_heads=1, num_hidden_layers=7,
                   sliding_window=5, query_pre_attn_scalar=31, rope_parameters=dict(
                       full_attention=rope("linear", factor=8.0, theta=1e6), sliding_attention=rope("default"))), old, "BF16", 1),
    "gemma3-listed": ("Gemma3Text", dict(head_dim=14, num_hidden_layers=3, sliding_window=9, query_pre_attn_scalar=14,
                      final_logit_softcapping=9.0, attn_logit_softcapping=4.0, layer_types=["full_attention",
                      "sliding_attention", "sliding_attention"], rope_parameters=dict(full_attention=rope("default", theta=5e4),
                      sliding_attention=rope("default", theta=3e3))), None, "BF16", 2),
    "gemma4-odd": ("Gemma4Text", dict(head_dim=10, global_head_dim=18, num_attention_heads=6, num_key_value_heads=2,
                   num_global_key_value_heads=1, attention_k_eq_v=True, num_hidden_layers=4, sliding_window=6,
                   hidden_size_per_layer_input=0, final_logit_softcapping=15.0, layer_types=["sliding_attention",
                   "full_attention", "sliding_attention", "full_attention"]), None, "BF16", 1),
    "gemma4-shared-order": ("Gemma4Text", dict(head_dim=8, global_head_dim=20, num_attention_heads=3, num_key_value_heads=1,
                            num_hidden_layers=7, sliding_window=7, hidden_size_per_layer_input=9, vocab_size_per_layer_input=83,
                            num_kv_shared_layers=3, use_double_wide_mlp=True, layer_types=["full_attention",
                            "sliding_attention", "sliding_attention", "sliding_attention", "full_attention",
                            "sliding_attention", "full_attention"]), None, "BF16", 1),
    "gemma4-experts": ("Gemma4Text", dict(head_dim=12, global_head_dim=12, hidden_size=45, num_attention_heads=5, num_key_value_heads=1,
                       num_hidden_layers=3, sliding_window=8, hidden_size_per_layer_input=0, enable_moe_block=True,
                       num_experts=5, top_k_experts=3, moe_intermediate_size=19, layer_types=["sliding_attention",
                       "sliding_attention", "full_attention"]), None, "BF16", 1),
    "gemma3n-odd": ("Gemma3nText", dict(head_dim=10, num_attention_heads=3, num_key_value_heads=1, num_hidden_layers=6,
                    sliding_window=7, hidden_size_per_layer_input=9, vocab_size_per_layer_input=83, laurel_rank=5,
                    num_kv_shared_layers=2, activation_sparsity_pattern=[0.6, 0.0, 0.3, 0.9, 0.0, 0.0],
                    layer_types=["sliding_attention", "full_attention", "sliding_attention", "sliding_attention",
                    "full_attention", "sliding_attention"]), None, "BF16", 1),
    "gemma3n-streams": ("Gemma3nText", dict(head_dim=14, num_hidden_layers=5, sliding_window=11, hidden_size_per_layer_input=6,
                        vocab_size_per_layer_input=70, laurel_rank=3, num_kv_shared_layers=0, altup_num_inputs=3,
                        altup_active_idx=1, altup_correct_scale=False, activation_sparsity_pattern=[0.5] * 5,
                        intermediate_size=[30, 34, 38, 42, 46], final_logit_softcapping=9.0), None, "BF16", 2),
    "gptoss-odd": ("GptOss", dict(head_dim=10, num_attention_heads=6, num_key_value_heads=2, num_local_experts=5,
                   num_experts_per_tok=2, sliding_window=6, rope_parameters=dict(YARN, truncate=False, factor=8.0, rope_theta=150000.0)
                   ), None, "BF16", 1),
    "gptoss-one-kv": ("GptOss", dict(head_dim=18, num_attention_heads=3, num_key_value_heads=1, num_local_experts=4,
                      num_experts_per_tok=3, sliding_window=9, num_hidden_layers=2, layer_types=["full_attention",
                      "sliding_attention"], rope_parameters=rope("default", theta=5e4)), None, "BF16", 1),
    "phi3-odd": ("Phi3", dict(num_attention_heads=3, num_key_value_heads=1, hidden_size=42, tie_word_embeddings=True,
                 sliding_window=8), old, "BF16", 1),
    "phi3-partial-long": ("Phi3", dict(hidden_size=40, num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64,
                          original_max_position_embeddings=16, rope_parameters=rope("longrope", partial_rotary_factor=0.8,
                          original_max_position_embeddings=16, **dict(LONG_SHORT, long_factor=[1.5, 2.9, 4.1, 5.3],
                          short_factor=[1.0, 1.1, 1.3, 1.7]))), old, "BF16", 1),
    "phi3-short": ("Phi3", dict(hidden_size=40, num_attention_heads=5, num_key_value_heads=1, max_position_embeddings=64,
                   original_max_position_embeddings=40, rope_parameters=rope("longrope", original_max_position_embeddings=40,
                   **LONG_SHORT)), old, "BF16", 1),
    "olmo2-one-kv": ("Olmo2", dict(hidden_size=42, num_attention_heads=3, num_key_value_heads=1, rope_parameters=YARN), old, "BF16",
                     1),
    "olmo3-odd": ("Olmo3", dict(hidden_size=54, num_attention_heads=9, num_key_value_heads=3, num_hidden_layers=4, sliding_window=6,
                  tie_word_embeddings=True), None, "BF16", 1),
    "deepseek3-groups": ("DeepseekV3", dict(MLA, num_attention_heads=5, num_key_value_heads=5, q_lora_rank=14, n_routed_experts=9,
                         num_experts_per_tok=4, n_group=3, topk_group=2, n_shared_experts=3, first_k_dense_replace=1,
                         routed_scaling_factor=2.3, norm_topk_prob=True), old, "BF16", 1),
    "deepseek3-halves": ("DeepseekV3", dict(MLA, num_attention_heads=4, num_key_value_heads=4, q_lora_rank=11, n_routed_experts=6,
                         num_experts_per_tok=2, n_group=1, topk_group=1, n_shared_experts=1, first_k_dense_replace=1,
                         qk_rope_head_dim=10, num_hidden_layers=2, attention_bias=True, rope_interleave=False), None, "F16", 1),
    "deepseek3-direct": ("DeepseekV3", dict(MLA, num_attention_heads=3, num_key_value_heads=3, q_lora_rank=None, kv_lora_rank=9,
                         v_head_dim=7, n_routed_experts=5, num_experts_per_tok=2, n_group=1, topk_group=1, n_shared_experts=1,
                         first_k_dense_replace=0, num_hidden_layers=2, norm_topk_prob=False, rope_parameters=dict(YARN,
                         mscale=1.0, mscale_all_dim=0.7)), old_type, "BF16", 1),
}

# generation_config.json, where a model has one
GENERATION = {"llama-one-kv": dict(temperature=0.6, top_k=20, top_p=0.9, repetition_penalty=1.25, eos_token_id=[2, 5])}


def saved_tensors(model):
    """Names and shapes as save_pretrained writes them."""
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        with open(folder + "/model.safetensors", "rb") as file:
            header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
    header.pop("__metadata__", None)
    return {name: entry["shape"] for name, entry in sorted(header.items())}


def make(name, out):
    family, settings, change, dtype, files = MODELS[name]
    common = {} if family == "GPT2" else COMMON
    config = getattr(transformers, family + "Config")(**{**common, "vocab_size": 83, **copy.deepcopy(settings)})
    model = transformers.AutoModelForCausalLM.from_config(config)
    written = json.loads(model.config.to_json_string())
    written["architectures"] = [type(model).__name__]
    if family == "GPT2":
        written["n_ctx"] = written["n_positions"]
    written["dtype"] = {"BF16": "bfloat16", "F16": "float16", "F32": "float32"}[dtype]
    if change:
        change(written)
    V = written["vocab_size"]
    generator = torch.Generator().manual_seed(sum(map(ord, name)))
    ids = torch.randint(3, V, (1, TOKENS), generator=generator)
    description = {"made_with": f"transformers {transformers.__version__}, torch {torch.__version__}, float32, eager",
                   "seed": name, "dtype": dtype, "files": files, "V": V, "input_ids": ids[0].tolist(), "config": written,
                   "tensors": saved_tensors(model)}
    if name in GENERATION:
        description["generation_config"] = GENERATION[name]
    with tempfile.TemporaryDirectory() as folder:
        shapes.write_folder(description, folder)
        model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager",
                                                                  experts_implementation="eager").eval()
        with torch.no_grad():
            logits = model(ids, use_cache=False).logits[0].float().contiguous()
    spread = float(logits.max() - logits.min())
    assert torch.isfinite(logits).all() and spread > 1, (name, spread)
    with open(f"{out}/{name}.f32", "wb") as file:
        file.write(logits.numpy().tobytes())
    with open(f"{out}/{name}.json", "w", encoding="utf-8") as file:
        json.dump(description, file, separators=(",", ":"))
        file.write("\n")
    print(f"{name}: range {spread:.3g}, deviation at the last position {float(logits[-1].std()):.3g}", flush=True)


if __name__ == "__main__":
    os.makedirs(sys.argv[1], exist_ok=True)
    for wanted in sys.argv[2:] or MODELS:
        make(wanted, sys.argv[1])
