#!/usr/bin/env python3
"""make_golden.py OUT [NAME...]: tiny models of random weights with the logits that Hugging Face transformers gives for them.

For the families and shapes that have no folder in tests/data/golden yet; run by hand (needs PyPI torch and transformers), its
output is kept. Each folder OUT/NAME gets config.json, model.safetensors, ref.json and logits.f32 (see the README there).
Weights are drawn so that every part of a model matters: norms, biases, sinks and routers are away from their neutral values."""
import json
import os
import sys

import torch
import transformers

TOKENS = 48
COMMON = dict(vocab_size=310, hidden_size=60, intermediate_size=88, num_hidden_layers=3, num_attention_heads=6,
              num_key_value_heads=2, max_position_embeddings=128, bos_token_id=1, eos_token_id=2, pad_token_id=0)
LONG = dict(rope_type="longrope", short_factor=[1.0, 1.1, 1.3, 1.7, 2.2], long_factor=[1.5, 1.9, 3.1, 4.3, 6.0],
            rope_theta=10000.0, original_max_position_embeddings=32, partial_rotary_factor=1.0)
YARN = dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=32, rope_theta=10000.0)
MODELS = {
    "mistral-window": ("Mistral", dict(sliding_window=12, head_dim=12)),
    "llama-yarn-bias": ("Llama", dict(attention_bias=True, mlp_bias=True, rope_parameters=dict(YARN, attention_factor=1.3))),
    "granite": ("Granite", dict(embedding_multiplier=6.0, attention_multiplier=0.4, residual_multiplier=0.7,
                                logits_scaling=2.5, tie_word_embeddings=True)),
    "smollm3": ("SmolLM3", dict(num_hidden_layers=5, no_rope_layer_interval=4)),
    "qwen2moe": ("Qwen2Moe", dict(num_experts=6, num_experts_per_tok=3, moe_intermediate_size=20,
                                  shared_expert_intermediate_size=36, norm_topk_prob=False, decoder_sparse_step=1)),
    "qwen2-window": ("Qwen2", dict(use_sliding_window=True, sliding_window=10, max_window_layers=1, num_key_value_heads=1)),
    "qwen3moe-mixed": ("Qwen3Moe", dict(num_experts=5, num_experts_per_tok=2, moe_intermediate_size=20, head_dim=14,
                                        norm_topk_prob=False, mlp_only_layers=[1])),
    "gemma2": ("Gemma2", dict(num_hidden_layers=4, head_dim=14, sliding_window=10, query_pre_attn_scalar=20)),
    "gemma3-scaled": ("Gemma3Text", dict(num_hidden_layers=7, head_dim=14, sliding_window=9, query_pre_attn_scalar=30)),
    "olmo2": ("Olmo2", dict()),
    "olmo3": ("Olmo3", dict(num_hidden_layers=5, sliding_window=10, rope_parameters=dict(
        full_attention=YARN, sliding_attention=dict(rope_type="default", rope_theta=10000.0)))),
    "phi3-long": ("Phi3", dict(num_key_value_heads=3, rope_parameters=LONG, original_max_position_embeddings=32)),
    "phi3-partial": ("Phi3", dict(num_attention_heads=3, num_key_value_heads=3, partial_rotary_factor=0.4, sliding_window=20)),
    "deepseek3": ("DeepseekV3", dict(num_key_value_heads=6, q_lora_rank=24, kv_lora_rank=20, qk_nope_head_dim=12,
                                     qk_rope_head_dim=8, v_head_dim=14, n_routed_experts=8, num_experts_per_tok=3, n_group=4,
                                     topk_group=2, n_shared_experts=2, moe_intermediate_size=20, first_k_dense_replace=1,
                                     routed_scaling_factor=1.7, norm_topk_prob=True,
                                     rope_parameters=dict(YARN, mscale=1.0, mscale_all_dim=1.0))),
    "deepseek3-lite": ("DeepseekV3", dict(num_key_value_heads=6, q_lora_rank=None, kv_lora_rank=20, qk_nope_head_dim=12,
                                          qk_rope_head_dim=8, v_head_dim=14, n_routed_experts=8, num_experts_per_tok=2,
                                          n_group=1, topk_group=1, n_shared_experts=1, moe_intermediate_size=20,
                                          first_k_dense_replace=1, norm_topk_prob=False)),
}


def draw(name, tensor, adds_one, generator):
    """Values for one tensor by what its name says it is."""
    noise = torch.randn(tensor.shape, generator=generator, dtype=torch.float32)
    if name.endswith("e_score_correction_bias"):
        return 0.2 * noise
    if "norm" in name:
        return (0.0 if adds_one else 1.0) + 0.25 * noise
    if name.endswith("bias") or tensor.dim() == 1:
        return 0.25 * noise
    if "embed" in name or "lm_head" in name:
        return 0.4 * noise
    gain = 1.45 if "q_proj" in name or "k_proj" in name or "q_b" in name else 2.0 if "mlp" in name else 1.5
    return gain * tensor.shape[-1] ** -0.5 * noise


def make(name, out):
    family, changes = MODELS[name]
    config = getattr(transformers, family + "Config")(**{**COMMON, **changes})
    config._attn_implementation = "eager"
    model = getattr(transformers, family.replace("Gemma3Text", "Gemma3") + "ForCausalLM")(config).eval()
    generator = torch.Generator().manual_seed(sum(map(ord, name)))
    with torch.no_grad():
        tensors = dict(model.named_parameters())
        tensors.update((n, b) for n, b in model.named_buffers() if n.endswith("e_score_correction_bias"))
        for key, tensor in sorted(tensors.items()):
            tensor.copy_(draw(key, tensor, family.startswith("Gemma"), generator).to(torch.bfloat16).float())
    folder = os.path.join(out, name)
    model.to(torch.bfloat16).save_pretrained(folder)
    os.path.exists(folder + "/generation_config.json") and os.remove(folder + "/generation_config.json")
    model = type(model).from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
    ids = torch.randint(3, config.vocab_size, (1, TOKENS), generator=generator)
    with torch.no_grad():
        logits = model(ids, use_cache=False).logits[0].float().contiguous()
    with open(folder + "/logits.f32", "wb") as file:
        file.write(logits.numpy().tobytes())
    with open(folder + "/ref.json", "w") as file:
        json.dump({"name": name, "made_with": f"transformers {transformers.__version__}, torch {torch.__version__}, float32",
                   "T": TOKENS, "V": config.vocab_size, "input_ids": ids[0].tolist()}, file)
    print(f"{name}: range {float(logits.max() - logits.min()):.3g}")


for wanted in sys.argv[2:] or MODELS:
    make(wanted, sys.argv[1])
