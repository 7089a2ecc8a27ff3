# Steps of `.ci/run` and `.ci/nightly`, which source this file from the root of the repository.

export LEYDEN_CI=1
export CARGO_TERM_COLOR=never
export CARGO_INCREMENTAL=0
# Nobody debugs these builds: a fifth of their time. A panic names its line without it.
export CARGO_PROFILE_DEV_DEBUG=false CARGO_PROFILE_RELEASE_DEBUG=false
target=${CARGO_TARGET_DIR:-target}
mkdir -p "$target"
results=()
failed=0

# Names of the steps to run; empty for all.
wanted_steps=()

# step NAME COMMAND…: runs a step, if it is wanted, and notes its verdict and seconds.
step() {
    local name=$1 started=$SECONDS status
    shift
    if [ ${#wanted_steps[@]} -gt 0 ] && [[ " ${wanted_steps[*]} " != *" $name "* ]]; then
        results+=("$(printf '%-10s not run: not asked for' "$name")")
        return
    fi
    echo
    echo "=== $name: $*"
    if "$@"; then
        status=ok
    else
        status=FAILED
        failed=1
    fi
    results+=("$(printf '%-10s %-7s %4d s' "$name" "$status" $((SECONDS - started)))")
}

machine() {
    uname -srm
    lscpu | grep -E 'Model name|^CPU\(s\)|Thread|L2|L3'
    grep -m 1 -oE '(\b(avx|amx|fma|f16c)[a-z0-9_]* ?)+' /proc/cpuinfo | sort -u | tr '\n' ' '
    echo
    free -h | head -n 2
    rustc -vV && python3 --version
}

# A virtual environment where Python can make one; otherwise the user's own packages.
python_packages() {
    local venv=$target/ci-python
    if python3 -m venv "$venv" >/dev/null 2>&1 && [ -x "$venv/bin/pip" ]; then
        PATH=$(cd "$venv/bin" && pwd):$PATH
        export PATH
        python3 -m pip install --quiet --requirement .ci/requirements.txt
    else
        rm -rf "$venv"
        python3 -m pip install --quiet --user --requirement .ci/requirements.txt ||
            python3 -m pip install --quiet --user --break-system-packages --requirement .ci/requirements.txt
    fi && python3 -c 'import gguf, jinja2, jsonschema, numpy, openai, schemathesis'
}

documentation() {
    RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --locked
}

tests() {
    local log=$target/ci-tests.log status
    cargo test --workspace --release --no-fail-fast 2>&1 | tee "$log"
    status=$?
    awk '/^test result:/ { passed += $4; failed += $6; ignored += $8 }
         END { printf "tests: %d passed, %d failed, %d ignored\n", passed, failed, ignored }' "$log"
    return $status
}

# The compiler with the standard library for 64-bit Arm, a linker and an emulator, all of them Debian packages.
arm_packages() {
    local wanted=(rustc-web libstd-rust-web-dev:arm64 gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user)
    if ! dpkg-query --show "${wanted[@]}" >/dev/null 2>&1; then
        dpkg --add-architecture arm64 && apt-get update --quiet=2 &&
            DEBIAN_FRONTEND=noninteractive apt-get install --quiet=2 --yes --no-install-recommends "${wanted[@]}"
    fi
    if ! { dpkg-query --show "${wanted[@]}" >/dev/null && qemu-aarch64 --version; }; then
        echo "error: the Arm tiers cannot be tested: these packages cannot be installed: ${wanted[*]}" >&2
        return 1
    fi
}

# arm CPU COMMAND ARGUMENTS…: runs cargo's command for 64-bit Arm, tests on an emulated processor. The compiler differs
# from the toolchain file's, whose standard library for Arm is not at hand, so its target directory is another one.
arm() {
    local cpu=$1 command=$2
    shift 2
    RUSTC=/usr/bin/rustc RUSTDOC=/usr/bin/rustdoc CARGO_TARGET_DIR=$target/arm \
        CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc \
        CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER="qemu-aarch64 -cpu $cpu" \
        LEYDEN_TEST_RUNNER="qemu-aarch64 -cpu $cpu" \
        cargo "${arm_profile[@]}" "$command" --target aarch64-unknown-linux-gnu --locked "$@"
}

# What computes, or reads files in the processor's byte order and alignment. The other crates (leyden-text, -hub, -load,
# -server, -constrain, -tls) have no unsafe code and nothing of their own for a processor: it is checked that the program,
# which has them all, compiles.
arm_crates=(-p leyden-kernels -p leyden-tensor -p leyden-models -p leyden-engine)
# Elsewhere nothing depends on the tier: the kernels, and whole models.
arm_kernels=("${arm_crates[@]}" --lib)
arm_models=(-p leyden-engine --test model)
# What only has to compile, or computes nothing to speak of, is not optimised.
arm_profile=(--config 'profile.release.package."*".opt-level=0')

# Code that is dead on Arm alone is seen by no step before.
arm_check() {
    RUSTFLAGS='-D dead_code -D unfulfilled_lint_expectations' arm max check -p leyden-cli
}

# Whether what is tested under emulation differs from the commit of the last nightly run that passed.
arm_changed() {
    local tested
    tested=$(python3 -c 'import json; r = json.load(open(".ci/nightly.json")); print(r["commit"] if r["passed"] and r["complete"] else "")') || return 0
    [ -n "$tested" ] && git cat-file -e "$tested^{commit}" 2>/dev/null || return 0
    ! git diff --quiet "$tested" HEAD -- crates/leyden-kernels crates/leyden-tensor crates/*/Cargo.toml Cargo.lock
}

# arm_tests CPU "TIERS" SELECTION [SELECTION…] [-- FILTERS…]: runs the tests of each selection, a name of an array above,
# and checks that the kernels of exactly these tiers ran.
arm_tests() {
    local cpu=$1 tiers=$2 log=$target/ci-arm-$1.log status=0 ran selections=() selection
    shift 2
    while [ $# -gt 0 ] && [ "$1" != -- ]; do
        selections+=("$1")
        shift
    done
    : >"$log"
    for selection in "${selections[@]}"; do
        local -n packages=$selection
        arm "$cpu" test --release "${packages[@]}" --no-fail-fast "$@" 2>&1 | tee -a "$log"
        [ "${PIPESTATUS[0]}" -eq 0 ] || status=1
    done
    awk -v cpu="$cpu" '/^test result:/ { passed += $4; failed += $6; ignored += $8 }
         END { printf "tests on %s: %d passed, %d failed, %d ignored\n", cpu, passed, failed, ignored }' "$log" |
        tee -a "$log"
    ran=$(grep -oE 'conformance: [a-z0-9]+ ran' "$log" | cut -d' ' -f2 | tr '\n' ' ')
    if [ "$ran" != "scalar $tiers " ]; then
        echo "error: on $cpu the kernels of these tiers ran: $ran; wanted: scalar $tiers" >&2
        return 1
    fi
    return "$status"
}

# What a newcomer types first. The program is built together with the Python module: apart, the features of their crates
# differ and most are compiled again.
story() {
    local text
    cargo build --release --locked -p leyden-cli -p leyden-python || return 1
    text=$("$target/release/leyden" run "Once upon a time" -n 40 --seed 1) || return 1
    printf '%s\n' "$text"
    [ -n "$text" ]
}

# The Python package in an environment of its own beside the packages of the other tests: its tests, the snippets of its
# page, and its types.
python_package() {
    local wheels venv packages own
    wheels=$(realpath "$target")/ci-wheels venv=$(realpath "$target")/ci-wheel-venv
    packages=$(python3 -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
    rm -rf "$wheels" "$venv"
    cargo xtask wheel --out "$wheels" && python3 -m venv "$venv" &&
        "$venv/bin/python" -m pip install --quiet --no-deps "$wheels"/leyden-*.whl || return 1
    own=$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
    echo "$packages" >"$own/packages-of-tests.pth"
    "$venv/bin/python" -m pytest --quiet -p no:cacheprovider python/leyden/tests &&
        (cd python/leyden && "$venv/bin/python" -m mypy --no-incremental leyden)
}

# Prints the summary of all steps; the status says whether one failed.
summary() {
    echo
    echo "=== summary"
    printf '%s\n' "${results[@]}"
    grep --no-filename '^tests\( on .*\)\?: \|^conformance: \|^test result: FAILED\|^test .* FAILED$' \
        "$target"/ci-*.log 2>/dev/null
    return "$failed"
}
