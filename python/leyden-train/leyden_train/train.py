"""The run of a recipe: stages, steps, checkpoints."""

import contextlib
import hashlib
import math
import os
import platform
import re
import signal
import time

import torch
import torch.nn.attention
import transformers

from . import __version__, checkpoint, evaluate, export, masks, models, quant, recipe as recipes
from .data import Rows, read_labels


class Interrupted(Exception):
    """A signal ended the run; its checkpoint is written."""


def seed_of(*parts):
    """Returns a seed from numbers; each step has its own, so that a resumed run needs no state of generators."""
    return int.from_bytes(hashlib.sha256(repr(parts).encode()).digest()[:7], "little")


def factor(stage, step, steps):
    """Returns the factor of the learning rate at a step."""
    warm = stage.warmup * steps
    if step < warm:
        return (step + 1) / (warm + 1)
    part = (step - warm) / max(1.0, steps - warm)
    return {"linear": 1 - part, "cosine": (1 + math.cos(math.pi * part)) / 2, "constant": 1.0}[stage.decay]


def choose_precision(wanted, device):
    """Returns `bfloat16` where the device multiplies in it, else `float32`."""
    if wanted != "auto":
        return wanted
    if device.type == "cuda":
        return "bfloat16" if torch.cuda.is_bf16_supported() else "float32"
    tests = ("_is_amx_tile_supported", "_is_avx512_bf16_supported")
    return "bfloat16" if any(getattr(torch.cpu, test, bool)() for test in tests) else "float32"


def attention(device):
    """Returns the context of attention in training: on processors PyTorch's fused kernel is slow backwards."""
    if device.type == "cpu":
        return torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH)
    return contextlib.nullcontext()


def machine(device):
    """Returns what computes, for the log."""
    cpu = platform.processor() or platform.machine()
    with contextlib.suppress(OSError), open("/proc/cpuinfo", encoding="utf-8") as file:
        fields = dict(line.split(":", 1) for line in file if ":" in line)
        fields = {key.strip(): value.strip() for key, value in fields.items()}
        cpu = f"{fields.get('model name', cpu)} (family {fields.get('cpu family')}, model {fields.get('model')})"
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else cpu
    return {"device": name, "cpu": cpu, "cores": os.cpu_count(), "threads": torch.get_num_threads()}


class Run:
    """A run of a recipe, from its checkpoint on."""

    def __init__(self, recipe, progress):
        self.recipe, self.progress = recipe, progress
        if recipe.threads:
            torch.set_num_threads(recipe.threads)
        name = recipe.device if recipe.device != "auto" else "cuda" if torch.cuda.is_available() else "cpu"
        try:
            self.device = torch.device(name)
            torch.empty(1, device=self.device)
        except (RuntimeError, AssertionError) as error:
            raise recipes.RecipeError(f"device: {name!r} cannot be used: {error}") from error
        self.stopped = None
        self.log = {
            "program": f"leyden-train {__version__}",
            "versions": {
                "python": platform.python_version(),
                "torch": str(torch.__version__),
                "transformers": transformers.__version__,
            },
            "machine": machine(self.device),
            "recipe": recipe.without_paths(),
            "resumed": 0,
            "stages": [],
        }

    def path(self, name):
        """Returns the folder of a stage, or `name` itself if it is a path."""
        if any(stage.name == name for stage in self.recipe.stages):
            return os.path.join(self.recipe.output, name)
        return models.local(name)

    def run(self, restart=False, must_resume=False):
        """Runs all stages that are left, and returns the log."""
        output = self.recipe.output
        os.makedirs(output, exist_ok=True)
        with checkpoint.lock(output), self.signals():
            state = None if restart else checkpoint.load(output)
            if state is None and must_resume:
                raise checkpoint.CheckpointError(f"{output}: there is no checkpoint to resume")
            first = self.take(state) if state else 0
            self.rows()
            for i in range(first, len(self.recipe.stages)):
                StageRun(self, i, state if state and state["step"] is not None and i == first else None).run()
                self.save(i + 1, None)
            checkpoint.write_json(os.path.join(output, "log.json"), self.log)
        return self.log

    @contextlib.contextmanager
    def signals(self):
        """Lets the step in progress end after an interrupt."""
        former = {}
        for number in (signal.SIGINT, signal.SIGTERM):
            with contextlib.suppress(ValueError):
                former[number] = signal.signal(number, lambda n, _: setattr(self, "stopped", n))
        try:
            yield
        finally:
            for number, handler in former.items():
                signal.signal(number, handler)

    def take(self, state):
        """Checks a checkpoint against the recipe, and returns its stage."""
        stage = state["stage"]
        now = self.recipe.prefix(min(stage + 1, len(self.recipe.stages)) if state["step"] is not None else stage)
        changed = recipes.differences(state["recipe"], now)
        if changed:
            raise checkpoint.CheckpointError(
                f"{self.recipe.output}: its checkpoint is of another recipe; different: {', '.join(changed[:5])}. "
                "Restore them, choose another `output`, or begin anew with --restart"
            )
        log = state["log"]
        self.log = {**log, "recipe": self.log["recipe"], "resumed": log["resumed"] + 1}
        return stage

    def save(self, stage, step, **more):
        """Writes the checkpoint and the log; `step` is `None` between stages."""
        count = stage if step is None else stage + 1
        state = {"stage": stage, "step": step, "recipe": self.recipe.prefix(count), "log": self.log, **more}
        checkpoint.save(self.recipe.output, state)
        checkpoint.write_json(os.path.join(self.recipe.output, "log.json"), self.log)

    def rows(self):
        """Reads and tokenises the rows."""
        data = self.recipe.data
        self.base = models.local(self.recipe.model)
        tokenizer = models.tokenizer(self.base)
        labels = read_labels(data.labels) if data.labels else None
        self.train = Rows(data.train, data, tokenizer, labels)
        own = models.known_labels(self.base)
        if labels is None and own is not None and sorted(own) == self.train.labels:
            self.train = Rows(data.train, data, tokenizer, own)
        self.eval = Rows(data.eval, data, tokenizer, self.train.labels)
        self.log["rows"] = {"train": len(self.train), "eval": len(self.eval)}

    def rows_after(self, stage):
        """Returns the rows to train and the evaluations of later stages."""
        later = self.recipe.stages[stage + 1 :]
        return sum(s.epochs for s in later) * len(self.train), sum(s.epochs + 2 for s in later)


class StageRun:
    """One stage of a run."""

    def __init__(self, run, index, state):
        self.run_, self.index, self.state = run, index, state
        self.stage = stage = run.recipe.stages[index]
        self.device, self.rows = run.device, run.train
        self.precision = choose_precision(stage.precision or run.recipe.precision, run.device)
        self.per_epoch = math.ceil(len(self.rows) / stage.batch)
        self.steps = stage.epochs * self.per_epoch
        self.quantiser = None

    def prepare(self):
        """Reads the model, and makes masks, quantiser and optimiser."""
        run, stage = self.run_, self.stage
        torch.manual_seed(seed_of(run.recipe.seed, "weights"))
        source = run.path(stage.source)
        self.model = models.load(source, self.rows.labels, stage.source != run.recipe.model).to(self.device)
        if stage.dropout is not None:
            models.set_dropout(self.model, stage.dropout)
        self.modules = models.linear_modules(self.model, stage.matrices)
        self.weights = {f"{name}.weight": module.weight for name, module in self.modules.items()}
        self.masks = masks.Masks(self.weights, stage.keep_zeros)
        if stage.kind == "prune":
            if not any(masks.fits(w.shape, stage.pattern) for w in self.weights.values()):
                raise recipes.RecipeError(f"{stage.name}: no matrix consists of whole blocks of {stage.pattern}")
            self.schedule = masks.schedule(stage, self.steps)
        if stage.kind == "qat":
            odd = next((n for n, w in self.weights.items() if stage.group and w.shape[1] % stage.group), None)
            if odd:
                raise recipes.RecipeError(f"{stage.name}: the inputs of {odd} are no multiple of {stage.group}")
            self.quantiser = quant.Quantiser(self.weights, stage.bits, stage.group)
            if stage.activations == "int8":
                self.quantiser.hook_activations(self.modules.values())
        trained = {}
        for name, parameter in self.model.named_parameters():
            parameter.requires_grad_(not any(re.search(p, name) for p in run.recipe.freeze))
            if parameter.requires_grad:
                trained[name] = parameter
        self.trained = list(trained.values())
        decayed = [p for p in self.trained if p.dim() > 1]
        others = [p for p in self.trained if p.dim() <= 1]
        groups = [{"params": decayed, "weight_decay": stage.weight_decay}, {"params": others, "weight_decay": 0.0}]
        self.optimizer = torch.optim.AdamW([g for g in groups if g["params"]], lr=stage.lr, fused=True)

    def rounded(self):
        """Returns the context in which the matrices have the values that are exported."""
        return self.quantiser.rounded() if self.quantiser else contextlib.nullcontext()

    def evaluate(self, precision=None):
        """Evaluates the model as it would be exported."""
        began = time.monotonic()
        with self.rounded():
            found = evaluate.evaluate(self.model, self.run_.eval, self.device, precision or self.precision)
        self.run_.progress.evaluation = time.monotonic() - began
        return found

    def teach(self):
        """Computes the teacher's logits of all training rows, once."""
        stage = self.stage
        self.teacher = None
        if stage.teacher is not None and self.steps:
            model = models.load(self.run_.path(stage.teacher), self.rows.labels, True).to(self.device)
            self.teacher = evaluate.logits(model, self.rows, self.device, self.precision)

    def loss(self, logits, batch):
        """Returns the cross-entropy, mixed with the divergence from the teacher if there is one."""
        stage, targets = self.stage, self.rows.targets[batch].to(self.device)
        own = torch.nn.functional.cross_entropy(logits, targets)
        if self.teacher is None:
            return own
        t = stage.temperature
        there = torch.log_softmax(self.teacher[batch].to(self.device) / t, 1)
        here = torch.log_softmax(logits / t, 1)
        distance = torch.nn.functional.kl_div(here, there, reduction="batchmean", log_target=True)
        return (1 - stage.distill) * own + stage.distill * t * t * distance

    def step(self, step, batch):
        """Trains one batch, and returns its loss."""
        stage, run = self.stage, self.run_
        if stage.kind == "prune" and step in self.schedule:
            self.masks.renew(self.schedule[step], stage.pattern)
        torch.manual_seed(seed_of(run.recipe.seed, self.index, step))
        for group in self.optimizer.param_groups:
            group["lr"] = stage.lr * factor(stage, step, self.steps)
        with self.rounded():
            with evaluate.autocast(self.device, self.precision), attention(self.device):
                logits = self.model(**self.rows.inputs(batch, self.device)).logits
            loss = self.loss(logits.float(), batch)
            loss.backward()
        self.masks.apply_to_gradients()
        if stage.clip:
            torch.nn.utils.clip_grad_norm_(self.trained, stage.clip)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        self.masks.apply()
        return float(loss.detach())

    def save(self, step):
        """Writes a checkpoint, from which the stage goes on at `step`."""
        self.run_.save(
            self.index,
            step,
            model=self.model.state_dict(),
            optimizer=self.optimizer.state_dict(),
            masks=self.masks.state(),
            sums=self.sums,
        )

    def restore(self):
        """Takes the state of the checkpoint, and returns its step."""
        state = self.state
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.masks.load({name: mask.to(self.device) for name, mask in state["masks"].items()})
        self.sums = state["sums"]
        return state["step"]

    def run(self):
        """Trains the stage to its end, and exports the model."""
        run, stage = self.run_, self.stage
        self.prepare()
        first = 0
        if self.state:
            first = self.restore()
            self.record = run.log["stages"][-1]
        else:
            self.sums = {"loss": 0.0, "rows": 0, "wall_s": 0.0, "cpu_s": 0.0}
            start = self.evaluate()
            self.record = {"name": stage.name, "kind": stage.kind, "precision": self.precision, "start": start, "epochs": []}
            run.log["stages"].append(self.record)
            run.progress.say(f"{stage.name}: accuracy {100 * start['accuracy']:.2f} % at the start, {self.steps} steps")
        self.state = None
        self.teach()
        self.model.train()
        saved = time.monotonic()
        epoch, batches = None, []
        for step in range(first, self.steps):
            if step // self.per_epoch != epoch:
                epoch = step // self.per_epoch
                batches = self.rows.shuffled(stage.batch, seed_of(run.recipe.seed, self.index, "epoch", epoch))
            batch = batches[step % self.per_epoch]
            wall, cpu = time.monotonic(), time.process_time()
            loss = self.step(step, batch)
            wall, cpu = time.monotonic() - wall, time.process_time() - cpu
            if not math.isfinite(loss):
                raise models.ModelError(f"{stage.name}: the loss is {loss} at step {step}; lower `lr`")
            for key, value in (("loss", loss * len(batch)), ("rows", len(batch)), ("wall_s", wall), ("cpu_s", cpu)):
                self.sums[key] += value
            if run.progress.count(wall, len(batch)):
                self.report(step, loss)
            ends = (step + 1) % self.per_epoch == 0
            if ends:
                self.end_epoch(epoch)
            if run.stopped or ends or time.monotonic() - saved >= run.recipe.checkpoint_seconds:
                self.save(step + 1)
                saved = time.monotonic()
            if run.stopped:
                raise Interrupted(f"stopped by signal {run.stopped}; the same command goes on from step {step + 1}")
        self.finish()

    def report(self, step, loss):
        """Reports a step with the time left."""
        left = 1 - (step + 1) / self.steps
        later_rows, later_evaluations = self.run_.rows_after(self.index)
        self.run_.progress.step(
            left * self.stage.epochs * len(self.rows) + later_rows,
            left * self.stage.epochs + 1 + later_evaluations,
            stage=self.stage.name,
            step=step + 1,
            steps=self.steps,
            loss=loss,
            zeros=self.masks.sparsity() if self.masks.masks else 0.0,
        )

    def end_epoch(self, epoch):
        """Evaluates and logs an epoch."""
        sums, found = self.sums, self.evaluate()
        self.record["epochs"].append(
            {
                "epoch": epoch + 1,
                "train_loss": sums["loss"] / max(1, sums["rows"]),
                "accuracy": found["accuracy"],
                "eval_loss": found["loss"],
                "zeros": self.masks.sparsity(),
                "wall_s": round(sums["wall_s"], 2),
                "cpu_s": round(sums["cpu_s"], 2),
            }
        )
        self.sums = {"loss": 0.0, "rows": 0, "wall_s": 0.0, "cpu_s": 0.0}
        self.run_.progress.event("epoch", stage=self.stage.name, **self.record["epochs"][-1])
        self.run_.progress.say(
            f"{self.stage.name}: epoch {epoch + 1} of {self.stage.epochs}, loss {self.record['epochs'][-1]['train_loss']:.4f}, "
            f"accuracy {100 * found['accuracy']:.2f} %, {100 * self.masks.sparsity():.1f} % zeros"
        )

    def finish(self):
        """Exports the model and logs what it reaches in F32."""
        run, stage = self.run_, self.stage
        found = self.evaluate("float32")
        with self.rounded():
            zeros = self.masks.sparsity()
        self.record["final"] = {**found, "precision": "float32", "zeros": zeros}
        export.export(run.path(stage.name), self.model, stage, list(self.weights), run.base)
        run.progress.event("stage", stage=stage.name, **self.record["final"])
        run.progress.say(f"{stage.name}: accuracy {100 * found['accuracy']:.2f} %, {100 * zeros:.1f} % zeros")
