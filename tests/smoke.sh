#!/bin/sh
# Does an installation work? Six commands on 160 small digits, each with its exit code:
#   sh tests/smoke.sh PYTHON FOLDER
python=$1 folder=$2
mkdir -p "$folder" && cd "$folder" || exit 2
"$python" - <<'PY'
import numpy as np
from sklearn.datasets import load_digits

digits = load_digits()
images, labels = (digits.images[:160] / 16).astype("float32"), digits.target[:160].astype("int64")
np.savez("tiny.npz", images=images, labels=labels)
PY
run() {
  name=$1
  shift
  timeout 900 "$python" -W ignore -m symmetries "$@" >"$name.log" 2>&1
  echo "$name: exit $?"
}
run help --help
run data data list
run orbit orbit tiny.npz --group rotation --out o
run discover discover tiny.npz --group rotation --preset quick --device cpu --out d
run fit fit tiny.npz --group rotation --preset quick --device cpu --out f
run audit audit f/model tiny.npz --group c4 --out a
"$python" -c "import sys, numpy, torch, symmetries
print('Python', sys.version.split()[0], 'torch', torch.__version__, 'numpy', numpy.__version__)
print('symmetries', symmetries.__version__, symmetries.__file__)"
