#include "text/pre_names.h"

#include "base/memory.h"

/* Parts that many patterns share. GGUF's readers know the English endings without Unicode case folding. */
#define ENDINGS "(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])"
#define WORD "[^\\r\\n\\p{L}\\p{N}]?\\p{L}+"
#define OTHERS " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*"
#define OTHERS_SLASH " ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*"
#define BLANKS "\\s+(?!\\S)|\\s+"
#define LINES_BLANKS "\\s*[\\r\\n]+|" BLANKS
#define UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define CASED(ending) \
  "[^\\r\\n\\p{L}\\p{N}]?" UPPER "*" LOWER "+" ending "|[^\\r\\n\\p{L}\\p{N}]?" UPPER "+" LOWER "*" ending

#define GPT2 "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|" BLANKS
#define LLAMA3 ENDINGS "|" WORD "|\\p{N}{1,3}|" OTHERS "|" LINES_BLANKS
#define QWEN2 ENDINGS "|" WORD "|\\p{N}|" OTHERS "|" LINES_BLANKS
#define GPT4O CASED("(?i:'s|'t|'re|'ve|'m|'ll|'d)?") "|\\p{N}{1,3}|" OTHERS_SLASH "|" LINES_BLANKS
#define PUNCTUATED                                                                                      \
  "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| " \
  "?[\\p{P}\\p{S}]+"
#define HAN_KANA "[\\x{4e00}-\\x{9fa5}\\x{3040}-\\x{309f}\\x{30a0}-\\x{30ff}]+"
#define BLOOM " ?[^(\\s|.,!?\\x{2026}\\x{3002}\\x{ff0c}\\x{3001}\\x{964}\\x{6d4}\\x{60c})]+"
/* A run of blanks at the end of a piece; the look-behind keeps it from being tried at each blank of every run. */
#define BLANKS_AT_END "(?<!\\s)\\s+\\z"
/* clang-format off */
#define LATIN_GREEK_CYRILLIC \
  "\\s?[A-Za-z\\x{b5}\\x{c0}-\\x{d6}\\x{d8}-\\x{f6}\\x{f8}-\\x{1ba}\\x{1bc}-\\x{1bf}\\x{1c4}-\\x{293}" \
  "\\x{295}-\\x{2af}\\x{370}-\\x{373}\\x{376}\\x{377}\\x{37b}-\\x{37d}\\x{37f}\\x{386}\\x{388}-\\x{38a}" \
  "\\x{38c}\\x{38e}-\\x{3a1}\\x{3a3}-\\x{3f5}\\x{3f7}-\\x{481}\\x{48a}-\\x{52f}\\x{531}-\\x{556}" \
  "\\x{10a0}-\\x{10c5}\\x{13a0}-\\x{13f5}\\x{13f8}-\\x{13fd}\\x{1c90}-\\x{1cba}\\x{1cbd}-\\x{1cbf}" \
  "\\x{1d00}-\\x{1d2b}\\x{1d6b}-\\x{1d77}\\x{1d79}-\\x{1d9a}\\x{1e00}-\\x{1f15}\\x{1f18}-\\x{1f1d}" \
  "\\x{1f20}-\\x{1f45}\\x{1f48}-\\x{1f4d}\\x{1f50}-\\x{1f57}\\x{1f59}\\x{1f5b}\\x{1f5d}\\x{1f5f}-\\x{1f7d}" \
  "\\x{1f80}-\\x{1fb4}\\x{1fb6}-\\x{1fbc}\\x{1fbe}\\x{1fc2}-\\x{1fc4}\\x{1fc6}-\\x{1fcc}\\x{1fd0}-\\x{1fd3}" \
  "\\x{1fd6}-\\x{1fdb}\\x{1fe0}-\\x{1fec}\\x{1ff2}-\\x{1ff4}\\x{1ff6}-\\x{1ffc}\\x{2102}\\x{2107}" \
  "\\x{210a}-\\x{2113}\\x{2115}\\x{2119}-\\x{211d}\\x{2124}\\x{2126}\\x{2128}\\x{212a}-\\x{212d}" \
  "\\x{212f}-\\x{2134}\\x{2139}\\x{213c}-\\x{213f}\\x{2145}-\\x{2149}\\x{214e}\\x{2183}\\x{2184}" \
  "\\x{2c00}-\\x{2c7b}\\x{2c7e}-\\x{2ce4}\\x{2ceb}-\\x{2cee}\\x{2cf2}\\x{2cf3}\\x{a640}-\\x{a66d}" \
  "\\x{a680}-\\x{a69b}\\x{a722}-\\x{a76f}\\x{a771}-\\x{a787}\\x{a78b}-\\x{a78e}\\x{ab70}-\\x{abbf}" \
  "\\x{fb00}-\\x{fb06}\\x{fb13}-\\x{fb17}\\x{ff21}-\\x{ff3a}\\x{ff41}-\\x{ff5a}\\x{10400}-\\x{1044f}" \
  "\\x{104b0}-\\x{104d3}\\x{104d8}-\\x{104fb}\\x{10c80}-\\x{10cb2}\\x{10cc0}-\\x{10cf2}" \
  "\\x{118a0}-\\x{118df}\\x{1e900}-\\x{1e943}]+"
#define ASIAN_SCRIPTS \
  "[\\x{4e00}-\\x{9fff}\\x{3400}-\\x{4dbf}\\x{f900}-\\x{faff}\\x{3040}-\\x{309f}\\x{30a0}-\\x{30ff}" \
  "\\x{ff65}-\\x{ff9f}\\x{2f00}-\\x{2fdf}\\x{e40}-\\x{e7f}\\x{e80}-\\x{eff}\\x{1780}-\\x{17ff}" \
  "\\x{1000}-\\x{109f}\\x{aa60}-\\x{aa7f}\\x{a9e0}-\\x{a9ff}\\x{ac00}-\\x{d7af}\\x{1100}-\\x{11ff}]+"
/* clang-format on */
#define NO_HAN_UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}&&[^\\p{Han}]]"
#define NO_HAN_LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}&&[^\\p{Han}]]"
#define KIMI                                                                                                  \
  "\\p{Han}+|[^\\r\\n\\p{L}\\p{N}]?" NO_HAN_UPPER "*" NO_HAN_LOWER                                            \
  "+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"                                                                           \
  "[^\\r\\n\\p{L}\\p{N}]?" NO_HAN_UPPER "+" NO_HAN_LOWER "*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\\p{N}{1,3}|" OTHERS \
  "|" LINES_BLANKS

/* One rule set, and all names that mean it. */
typedef struct entry {
  const char *names; /* each followed by a blank */
  tn_pre_rules rules;
} entry;

static const entry entries[] = {
    {"default ", {.patterns = {"[\\p{P}\\$\\+<=>\\^~\\|]+", GPT2, "\\p{N}+", "[0-9][0-9][0-9]"}}},
    {"gpt-2 phi-2 jina-es jina-de gigachat jina-v2-es jina-v2-de a.x-4.0 mellum modern-bert exaone4 mpt olmo jais "
     "trillion "
     "granite-docling ",
     {.patterns = {GPT2}}},
    {"jina-v1-en jina-v2-code roberta-bpe ", {.patterns = {GPT2}, .add_separator = true}},
    {"llama-bpe llama3 llama-v3 falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano ",
     {.patterns = {LLAMA3}, .ignore_merges = true, .add_bos = true}},
    {"dbrx smaug-bpe glm4 chatglm-bpe ", {.patterns = {LLAMA3}}},
    {"qwen2 deepseek-r1-qwen kormo f2llmv2 stablelm2 megrez hunyuan solar-open grok-2 ", {.patterns = {QWEN2}}},
    {"qwen35 ",
     {.patterns =
          {ENDINGS
           "|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|" LINES_BLANKS}}},
    {"gpt-4o llama4 kanana2 talkie minimax-m2 ", {.patterns = {GPT4O}}},
    {"tekken ",
     {.patterns = {CASED("") "|\\p{N}|" OTHERS_SLASH "|" LINES_BLANKS}, .ignore_merges = true, .add_bos = true}},
    {"smollm starcoder refact command-r codeshell exaone minerva-7b mellum2 ", {.patterns = {"\\p{N}", GPT2}}},
    {"falcon ", {.patterns = {"[\\p{P}\\$\\+<=>\\^~\\|`]+", GPT2, "[0-9][0-9][0-9]"}}},
    {"deepseek-llm ",
     {.patterns = {"[\\r\\n]", LATIN_GREEK_CYRILLIC,
                   "\\s?[!-/:-~\\x{ff01}-\\x{ff0f}\\x{ff1a}-\\x{ff5e}\\x{2018}-\\x{201f}\\x{3000}-\\x{3002}]+",
                   BLANKS_AT_END, "[\\x{4e00}-\\x{9fa5}\\x{800}-\\x{4e00}\\x{ac00}-\\x{d7ff}]+", "\\p{N}+"}}},
    {"deepseek-coder ",
     {.patterns = {"[\\r\\n]", "\\s?\\p{L}+", "\\s?\\p{P}+",
                   "[\\x{4e00}-\\x{9fa5}\\x{800}-\\x{4e00}\\x{ac00}-\\x{d7ff}]+", "\\p{N}"}}},
    {"deepseek-v3 hunyuan-dense joyai-llm hy_v4 ",
     {.patterns = {"\\p{N}{1,3}", HAN_KANA, PUNCTUATED "[\\r\\n]*|" LINES_BLANKS}}},
    {"spark2_5 ", {.patterns = {"\\p{N}{1,3}", HAN_KANA, PUNCTUATED "|[\\r\\n]|" BLANKS, "\\p{N}"}}},
    {"youtu ",
     {.patterns =
          {"[\\x{ac00}-\\x{d7a3}\\x{3131}-\\x{318e}]+|[\\x{ff01}\\x{2026}\\x{201c}\\x{201d}\\x{2018}\\x{2019}\\x{2014}"
           "\\x{ff1a}\\x{ff1b}\\x{ff0c}\\x{3001}-\\x{303f}\\x{fe30}-\\x{fe4f}]+|[\\x{3105}-\\x{312f}]+|" HAN_KANA,
           CASED(ENDINGS "?") "|\\p{N}|" OTHERS_SLASH "|" LINES_BLANKS},
      .ignore_merges = true}},
    {"poro-chat bloom gpt3-finnish ", {.patterns = {BLOOM}}},
    {"viking ", {.patterns = {BLOOM, "\\p{N}"}}},
    {"chameleon ",
     {.patterns = {"<sentinel:[0-9]+>|(?:IMGIMG)(?:[A-I]{1,4})Z", "[\\t\\n]|    |  ", "\\p{N}",
                   "[\\p{P}!-/:-@\\[-`{-~]", GPT2},
      .add_bos = true}},
    {"exaone-moe ",
     {.patterns = {ENDINGS "|[^\\r\\n\\p{L}\\p{N}]?(?:\\p{L}\\p{M}*(?: \\p{L}\\p{M}*)*)+|\\p{N}| "
                           "?[^\\s\\p{L}\\p{N}]+[\\r\\n/]?|\\s*[\\r\\n]|" BLANKS}}},
    {"jais-2 ",
     {.patterns = {ENDINGS
                   "|" WORD "|\\p{N}{1,3}|" OTHERS
                   "|\\s*[\\r\\n]+|\\s{512}(?!\\S)|\\s{256}(?!\\S)|\\s{128}(?!\\S)|\\s{64}(?!\\S)|\\s{32}(?!\\S)|"
                   "\\s{16}(?!\\S)|\\s{8}(?!\\S)|\\s{4}(?!\\S)|\\s{1,2}(?!\\S)|\\s{1}"}}},
    {"granite-embed-multi-97m ", {.patterns = {GPT4O}, .ignore_merges = true}},
    {"tiny_aya cohere2moe ", {.patterns = {"aya-digits", GPT4O}}},
    {"superbpe ", {.patterns = {"\\p{N}+", "between-digits"}}},
    {"bailingmoe bailingmoe2 llada-moe ",
     {.patterns = {"'(?:[sSdDmMtT]|[lL][lL]|[vV][eE]|[rR][eE])|" WORD "|\\p{N}|" OTHERS "|\\s*[\\r\\n]|" BLANKS}}},
    {"seed-coder ", {.patterns = {ENDINGS "|" WORD "|\\p{N}| ?[^\\s\\p{L}\\p{N}\\r\\n]+|" LINES_BLANKS}}},
    {"minicpm5 ",
     {.patterns = {"\\p{N}{1,3}", ENDINGS "|" WORD "|\\p{N}+|" OTHERS "|" LINES_BLANKS}, .ignore_merges = true}},
    {"ufakzeka ", {.patterns = {WORD "|\\p{N}|" OTHERS "|" LINES_BLANKS}}},
    {"kimi-k2 ", {.patterns = {KIMI}}},
    {"afmoe ", {.patterns = {"digits", ASIAN_SCRIPTS, PUNCTUATED "[\\r\\n]*|" LINES_BLANKS}}},
    {"laguna ", {.patterns = {"[^\\n]+|[\\n]+", QWEN2}}},
    {"gemma4 granite-embed-multi-311m sarvam-moe ", {.patterns = {"[^\\n]+|[\\n]+"}, .spaces_as_mark = true}},
};

const tn_pre_rules *tn_pre_rules_named(tn_text name) {
  if (!name.bytes) name = TN_TEXT("default");
  for (size_t i = 0; i < TN_COUNT(entries); i++)
    for (const char *at = entries[i].names; *at;) {
      size_t bytes = strcspn(at, " ");
      if (tn_text_equal(name, (tn_text){at, bytes})) return &entries[i].rules;
      at += bytes + 1;
    }
  return NULL;
}

tn_text tn_pre_rules_name(size_t i) {
  if (i >= TN_COUNT(entries)) return TN_TEXT("");
  return (tn_text){entries[i].names, strcspn(entries[i].names, " ")};
}
