# Every public header compiles alone and twice in a row, as C11 and as C++, without a warning.
set -u
cd "$(dirname "$0")/../.." || exit 1
status=0
for header in include/tenon/*.h; do
  echo "$header"
  lines=$(printf '#include "tenon/%s"\n' "${header##*/}" "${header##*/}")
  echo "$lines" | cc -std=c11 -pedantic -Wall -Wextra -Werror -Iinclude -fsyntax-only -x c - || status=1
  echo "$lines" | c++ -std=c++17 -pedantic -Wall -Wextra -Werror -Iinclude -fsyntax-only -x c++ - || status=1
done
exit $status
