# Sourced by the recipes: $SACCADE is the program (default: `saccade` of the PATH, else that of build/release beside this folder).
built=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd)/build/release
if [ -x "$built/saccade" ]; then PATH=$PATH:$built; fi
unset built
export SACCADE=${SACCADE:-saccade}
if ! command -v "$SACCADE" >/dev/null; then
  case " $* " in
    *" --saccade "* | *" --help "* | *" -h "*) ;;
    *)
      echo "$(basename "$0"): there is no $SACCADE: build it (README.md), or say where it is (SACCADE=FILE)" >&2
      exit 2
      ;;
  esac
fi
