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
#define HAN_KANA "[一-龥぀-ゟ゠-ヿ]+"
#define BLOOM " ?[^(\\s|.,!?…。，、।۔،)]+"
/* A run of blanks at the end of a piece; the look-behind keeps it from being tried at each blank of every run. */
#define BLANKS_AT_END "(?<!\\s)\\s+\\z"
#define LATIN_GREEK_CYRILLIC                                                                                                                                                                             \
  "\\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-"                                            \
  "ἕἘ-"                                                                                                                                                                                              \
  "Ἕἠ-"                                                                                                                                                                                              \
  "ὅὈ-"                                                                                                                                                                                              \
  "Ὅὐ-"                                                                                                                                                                                              \
  "ὗὙὛὝὟ-ώᾀ-ᾴᾶ-ᾼι"                                                                                                                                                                   \
  "ῂ-ῄῆ-ῌῐ-ΐῖ-Ίῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤΩℨK-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-" \
  "ﬗＡ-"                                                                                                                                                                                              \
  "Ｚａ-"                                                                                                                                                                                              \
  "ｚ𐐀-"                                                                                                                                                                                             \
  "𐑏𐒰-"                                                                                                                                                                                            \
  "𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃]+"
#define ASIAN_SCRIPTS \
  "[一-鿿㐀-䶿豈-﫿぀-ゟ゠-ヿ･-ﾟ⼀-⿟เ-๿຀-໿ក-៿က-႟ꩠ-ꩿꧠ-꧿가-힯ᄀ-ᇿ]+"
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
    {"llama3 llama-v3 llama-bpe falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano ",
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
     {.patterns = {"[\\r\\n]", LATIN_GREEK_CYRILLIC, "\\s?[!-/:-~！-／：-～‘-‟　-。]+", BLANKS_AT_END,
                   "[一-龥ࠀ-一가-퟿]+", "\\p{N}+"}}},
    {"deepseek-coder ", {.patterns = {"[\\r\\n]", "\\s?\\p{L}+", "\\s?\\p{P}+", "[一-龥ࠀ-一가-퟿]+", "\\p{N}"}}},
    {"deepseek-v3 hunyuan-dense joyai-llm hy_v4 ",
     {.patterns = {"\\p{N}{1,3}", HAN_KANA, PUNCTUATED "[\\r\\n]*|" LINES_BLANKS}}},
    {"spark2_5 ", {.patterns = {"\\p{N}{1,3}", HAN_KANA, PUNCTUATED "|[\\r\\n]|" BLANKS, "\\p{N}"}}},
    {"youtu ",
     {.patterns = {"[가-힣ㄱ-ㆎ]+|[！…“”‘’—：；，、-〿︰-﹏]+|[ㄅ-ㄯ]+|" HAN_KANA,
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
