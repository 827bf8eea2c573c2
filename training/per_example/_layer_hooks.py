"""The private model: hooks on its layers that leave every example's gradient at the parameters.

Opacus's own hooks make each layer's output a view that may not be written in place, keep inputs in a stack that a forward pass
without a backward pass puts out of step, and see positional tensors alone. Here each output tensor has a hook of its own, which
holds what the layer was called with: outputs may be written in place, calls come back in any order, and what is called twice,
by keyword, with numbers, or again by ``checkpoint`` needs no rule.
"""

import logging
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from opacus import GradSampleModule
from opacus.layers.dp_rnn import DPGRU, DPLSTM, DPRNN, RNNLinear
from torch import nn
from torch.nn.utils.parametrize import is_parametrized
from torch.utils import _pytree as tree

from dptheory.errors import ArgumentError
from dptheory.training.per_example import _trial as trial
from dptheory.training.per_example._factors import added, factors_of, has_factors
from dptheory.training.per_example._formed import Formed
from dptheory.training.per_example._layer_gradients import Call, Places, attributes_of, call_of, of_a_call, trained
from dptheory.training.per_example._representation import Representation, filled, writes
from dptheory.training.per_example._whole_network import Arguments, NetworkCall, WholeNetwork, called, examples_of

FACTORS, HOOKS, FUNCTORCH, WHOLE = MODES = ("factors", "hooks", "functorch", "whole network")

_NO_EXAMPLES = "the rows of its layer are not the examples"

_log = logging.getLogger("dptheory.training")


class HookedModule(GradSampleModule):  # type: ignore[misc]
    """Opacus's wrapper with hooks of our own; pickled and copied it keeps the weights, and its hooks rest from then on.

    Args:
        m: the model.
        mode: "factors" leaves at the weights of dense layers, convolutions and embeddings what their gradients follow from, and
            tensors at all other parameters; "hooks" leaves tensors, by Opacus's formulas; "functorch" by the layers' own forward;
            "whole network" by a pass of the network for each example. All others take that for what no hook can reach, alone.
        views: rows of an example, which lie together in what the model takes: its gradient is the mean over them.
        looks: whether it is seen whose the rows of layers are; without that they are as Opacus takes them.
        options: those of Opacus's wrapper.
    """

    def __init__(self, m: nn.Module, *, mode: str, views: int = 1, looks: bool = True, **options: Any) -> None:
        self.passes = Passes()
        self.passes.views = views
        self.mode = mode
        self._tried = self._said = False
        self._looks = [trial.Looks() for _ in range(trial.PLACES + 1)] if looks else []
        self._places, self._pairs = set[int](), dict[int, int]()
        super().__init__(m, force_functorch=mode == FUNCTORCH, **({"strict": False} | options))

    def add_hooks(
        self, *, loss_reduction: str = "mean", batch_first: bool = True, force_functorch: bool = False
    ) -> None:
        """Put a hook on every layer with trained parameters, before those that the user has put there."""
        if hasattr(self._module, "autograd_grad_sample_hooks"):
            raise ArgumentError(
                "module",
                "not be private yet",
                self._module,
                got="one with hooks: take what to_standard_module() gives",
            )
        handles: list[Any] = []
        self._module.autograd_grad_sample_hooks = self.autograd_grad_sample_hooks = handles
        names = {m: name for name, m in self._module.named_modules()}
        self.passes.model = weakref.ref(self._module)
        self.passes.hooked.clear()
        self._tried = self.mode == WHOLE
        if self.mode == WHOLE:
            self.take_alone(self._module.parameters(), "")
        for layer in self._module.modules():
            if any(True for _ in layer.buffers()):
                self.take_alone(held_by(layer), "its layer has buffers")
        for layer in self.iterate_submodules(self._module):
            if type(layer) not in (DPRNN, DPLSTM, DPGRU):  # their cells have the hooks
                label = f"{names[layer] or 'the model itself'} ({type(layer).__name__})"
                hook = LayerHook(self.passes, label, mean=loss_reduction == "mean", mode=self.mode)
                hook.of_packed = isinstance(layer, RNNLinear)
                self.passes.hooked[hook] = layer
                if hook.factored(layer):
                    handles.append(layer.register_forward_pre_hook(WithoutWeight(self.passes, hook)))
                handles.append(layer.register_forward_hook(hook, with_kwargs=True, prepend=True, always_call=True))
        if self.passes.views > 1:
            for layer in self._module.modules():
                if type(layer) in (DPRNN, DPLSTM, DPGRU):
                    handles.append(layer.register_forward_pre_hook(_refuse_packed))
        self.enable_hooks()

    def iterate_submodules(self, module: nn.Module) -> Iterable[nn.Module]:
        """The layers with parameters that their hooks reach; what ``torch.nn.utils.parametrize`` makes of one is one layer."""
        if is_parametrized(module):
            if self.passes.of_hooks(held_by(module)):
                yield module
            return
        if self.passes.of_hooks(held_by(module)):
            yield module
            if type(module) not in (*self.GRAD_SAMPLERS, DPRNN, DPLSTM, DPGRU):
                return  # what is in it has no hooks of its own
        for layer in module.children():
            yield from self.iterate_submodules(layer)

    def take_alone(self, params: Iterable[nn.Parameter], why: str) -> bool:
        """Have the gradients of some parameters come from a pass of the whole network for each example; whether that is news.

        ``why`` says why no hook reaches them.
        """
        wanted = {id(p) for p in params} - set(self.passes.alone)
        new = {id(p): name for name, p in self._module.named_parameters() if p.requires_grad and id(p) in wanted}
        self.passes.alone |= new
        if new and self.mode != WHOLE and not self._said:
            self._said = True
            _log.warning(
                "%s has gradients of single examples by a pass of the whole network for each example, which is slower than the hook of "
                "its layer: %s; so may others; freeze it with requires_grad_(False) where it need not be trained",
                next(iter(new.values())),
                why,
            )
        return bool(new)

    def enable_hooks(self) -> None:
        super().enable_hooks()
        self.passes.enabled = True

    def disable_hooks(self) -> None:
        super().disable_hooks()
        self.passes.enabled = False

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The model's own."""
        self.passes.begin(self._module.training)
        self.passes.under_way = True
        try:
            if not self.passes.recording:
                return self._module(*args, **kwargs)
            self.passes.rows = self.passes.arguments.examples(tree.tree_leaves((args, kwargs)))
            if torch._C._functorch.maybe_current_level() is not None:
                return self._module(*args, **kwargs)
            self._try(args, kwargs)
            if not self._trained_alone():
                output = self._module(*args, **kwargs)
                tensors = [one for one in tree.tree_leaves(output) if isinstance(one, torch.Tensor)]
                for place, dim in self._pairs.items():
                    if place < len(tensors) and tensors[place].requires_grad:
                        tensors[place].register_hook(partial(self._of_pairs, dim))  # type: ignore[no-untyped-call]
                return output
            if torch.compiler.is_compiling() or torch._C._is_tracing():
                raise ValueError(_STANDARD.format(layer="one"))
            passes = self.passes
            return called(
                self._module,
                args,
                kwargs,
                arguments=passes.arguments,
                number=passes.number,
                views=passes.views,
                arrived=self._arrived,
            )
        finally:
            self.passes.under_way = False
            self.passes.put_back()

    def _trained_alone(self) -> dict[nn.Parameter, str]:
        """The trained parameters that no hook reaches, with their names."""
        alone = self.passes.alone
        return (
            {p: alone[id(p)] for p in self._module.parameters() if p.requires_grad and id(p) in alone} if alone else {}
        )

    def _try(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Before the first pass of some examples: see which layers' rows are examples; and now and then whose they are."""
        if self.mode == WHOLE or not self.passes.rows or torch.compiler.is_compiling() or torch._C._is_tracing():
            return
        leaves, spec = tree.tree_flatten((args, kwargs))
        pending, known = self.passes.pending(), len(self.passes.alone)
        if not self._tried:
            self._tried = True
            with trial.without_zeros(self._module.parameters()):
                self._settle(leaves, spec)
            for one in self._looks:
                one.anew = True
        own = (self._looks[0], self._looks[min(self.passes.place, trial.PLACES)]) if self._looks else ()
        holds = max((one.due(self.passes.rows // self.passes.views) for one in own), key=len, default=[])
        if not holds:
            return
        with trial.without_zeros(self._module.parameters()):
            while self.take_alone((p for one in holds for p in self._astray(leaves, spec, *one)), _NO_EXAMPLES):
                self._hook_anew()
                self._settle(leaves, spec)
        if pending and len(self.passes.alone) > known:  # no hook takes what they recorded any more
            name = list(self.passes.alone.values())[known]
            raise ArgumentError.about(
                name,
                None,
                f"{name} must have its rows in the order of the batch, got another one in a forward pass of a batch after its first: "
                "call zero_grad() and repeat the batch, or take grad_sample_mode='whole network'",
            )

    def _settle(self, leaves: list[Any], spec: tree.TreeSpec) -> None:
        """Leave to the hooks what they reach."""
        try:
            while self._take_what_hooks_miss(leaves, spec):
                self._hook_anew()
        except torch.OutOfMemoryError:
            raise
        except Exception as error:  # a model that takes batches of one size alone; the checks of every step stand
            _log.debug("rows of layers not compared: %s", error)

    def _hook_anew(self) -> None:
        self.remove_hooks()
        self.add_hooks(
            loss_reduction=self.loss_reduction,
            batch_first=self.batch_first,
            force_functorch=self.force_functorch,
        )
        self._tried = True

    def _take_what_hooks_miss(self, leaves: list[Any], spec: tree.TreeSpec) -> bool:
        """Whether there is something more that hooks cannot reach."""
        views = self.passes.views
        passes = [trial.passed(self, leaves, spec, count) for count in (trial.FEW, trial.MORE)]
        if not trial.of_examples(*passes, views=views):
            others = self.passes.arguments.leave_out(leaves)
            self.passes.rows = self.passes.arguments.examples(leaves)
            return others
        self._places, self._pairs = trial.of_rows(*passes, views=views)
        one, other = trial.not_apart(*(one.watch for one in passes), views=views)
        shared = {id(p) for hook in one for p in trained(self.passes.hooked[hook])}
        failed = {hook for found in passes for hook in found.watch.failed}
        more = self.take_alone(self._of(other), _NO_EXAMPLES)
        more |= self.take_alone(self._of(failed), "its layer has no gradients of single rows")
        unlike = [p for found in passes for p in found.unlike if id(p) not in shared]
        more |= self.take_alone(unlike, "it is used without its layer")
        if more:
            return True
        layers = [self.passes.hooked[hook] for hook in one]
        left = [] if not one or self._expands(layers, passes, leaves, spec) else layers
        if len(left) > 1:
            left = [layer for layer in left if not self._expands([layer], passes, leaves, spec)]
        return self.take_alone(
            (p for layer in left for p in trained(layer)), "one row of its layer stands for all examples"
        )

    def _astray(self, leaves: list[Any], spec: tree.TreeSpec, count: int, held: list[int]) -> list[nn.Parameter]:
        """Parameters whose rows turn out to be others' in a pass of so many examples of the batch at hand."""
        why, found = "", None
        for inputs in (True, False):  # a network may refuse inputs that have gradients
            try:
                options: dict[str, Any] = {"places": self._places, "within": True, "inputs": inputs}
                found = trial.passed(self, leaves, spec, count, held=held, **options)
                why = "" if found.seen else "no output and no layer has a row for each"
                break
            except Exception as error:  # also a network of one size of batches, or where there is no room
                why = str(error)
                _log.debug("rows of a batch not compared: %s", why)
        if why and count * self.passes.views == self.passes.rows:
            self.passes.say_unseen(f"in a batch of {count} examples: {why.strip().split(chr(10))[0][:160]}")
        return [] if found is None else found.astray

    def _of(self, hooks: Iterable["LayerHook"]) -> list[nn.Parameter]:
        return [p for hook in hooks for p in trained(self.passes.hooked[hook])]

    def _expands(
        self, layers: Sequence[nn.Module], before: Sequence[trial.Outcome], leaves: list[Any], spec: tree.TreeSpec
    ) -> bool:
        """Have one row become one for each example before some layers, where the network gives the same with that.

        And where each takes its own: of a table that is flattened the first copy alone is read, and all gradients would be the first
        example's.
        """
        handles = [
            layer.register_forward_pre_hook(ForEachExample(self.passes), with_kwargs=True, prepend=True)
            for layer in layers
        ]
        try:
            after = [trial.passed(self, leaves, spec, count) for count in (trial.FEW, trial.MORE)]
            changed = {hook for hook, layer in self.passes.hooked.items() if layer in layers}
            rest = set[Any]().union(*trial.not_apart(*(one.watch for one in after), views=self.passes.views))
            fits = trial.same(before, after) and not changed & rest
            if fits:
                own = {id(p) for layer in layers for p in trained(layer)}
                each = (
                    trial.passed(self, leaves, spec, trial.EACH, held=[held], places=self._places)
                    for held in range(trial.EACH)
                )
                fits = all(own.isdisjoint(map(id, found.unproven)) for found in each)
        except torch.OutOfMemoryError:
            raise
        except Exception as error:  # rows are what something counts on
            _log.debug("one row stays one: %s", error)
            fits = False
        if fits:
            self.autograd_grad_sample_hooks += handles
        else:
            for handle in handles:
                handle.remove()
        return fits

    def _of_pairs(self, dim: int, gradient: torch.Tensor) -> None:
        """The gradient of an output with a row and a column for each example."""
        pairs = gradient.movedim(dim, 1)
        examples = examples_of(len(pairs), self.passes.views, "the model"), self.passes.views
        others = pairs.reshape(*examples, *examples, *pairs.shape[2:]).clone()
        others.diagonal(dim1=0, dim2=2).zero_()
        if self.passes.enabled and others.any():
            raise ArgumentError(
                "loss",
                "keep the examples of a batch apart",
                tuple(gradient.shape),
                got=f"one of pairs of them, by scores of shape {tuple(gradient.shape)}",
                then=": a contrastive loss has no gradients of single examples; compare an example with parts or views of its own",
            )

    def _arrived(self, call: NetworkCall, place: int, gradient: torch.Tensor) -> None:
        """The gradient of an output of the network, complete."""
        params = self._trained_alone()
        if not self.passes.counts(call.number, tuple(params), "the model"):
            return
        task = torch._C._current_graph_task_id()
        if call.task != task:
            call.task, call.gradients = task, {}
            torch.autograd.Variable._execution_engine.queue_callback(lambda: self._finish(call, task))
        call.gradients[place] = gradient.detach()

    def _finish(self, call: NetworkCall, task: int) -> None:
        """All gradients of outputs have come."""
        params, enabled, put_back = self._trained_alone(), self.passes.enabled, attributes_of(self._module)
        self.passes.enabled = False
        try:
            found = self.passes.network.gradients(
                self._module, list(params.values()), call, mean=self.loss_reduction == "mean"
            )
        except BaseException:
            for p in self._module.parameters():
                p.grad = None  # that of the bare batch, which no optimizer may find
            raise
        finally:
            self.passes.enabled = enabled
            put_back()
        call.gradients = {}
        for p, name in params.items():
            samples: Any = found[name].detach()
            if call.autocast is not None:
                samples = Formed(samples, computed_in=call.autocast[1])
            self.passes.add(p, samples, call.rows // call.views, name, task=task)

    def __prepare_scriptable__(self) -> nn.Module:
        """torch.jit asks for it."""
        raise ValueError(_STANDARD.format(layer="one"))

    def __getstate__(self) -> dict[str, Any]:
        for p in self._module.parameters():
            held = getattr(p, "grad_sample", None)
            if held is not None and not getattr(held, "_processed", False):
                raise ArgumentError.about(
                    "model",
                    None,
                    "a private model must be saved or copied between step() and the next backward pass, got one with gradients of "
                    "single examples: call optimizer.step() or zero_grad() first, or save state_dict()",
                )
            if held is not None:
                p.grad_sample = None  # of single examples, without noise: no file may hold them
        return dict(vars(self))


def held_by(layer: nn.Module) -> list[nn.Parameter]:
    """A layer's own trained parameters; of a parametrized one all that it is made of."""
    return [p for p in layer.parameters(recurse=is_parametrized(layer)) if p.requires_grad]


class Passes:
    """What the hooks of one model share: whether they work, and the forward pass under way."""

    def __init__(self) -> None:
        self.enabled = True
        self.views = 1
        """Rows of an example, which lie together."""
        self.last: str | None = None
        """How the last forward pass went: "training", "eval" or "no_grad"."""
        self.number = 1
        self.model: weakref.ref[nn.Module] | None = None
        self.of_inputs_too = False
        """Whether a backward pass counts that leaves gradients at no parameter, as ``torch.autograd.grad`` for outputs of layers."""
        self.looked_at: Callable[[torch.Tensor], bool] = _always
        """Says of a parameter whether ``backward()`` must leave its gradient in ``p.grad``, which only a comparison reads."""
        self.reached = torch.zeros(0, requires_grad=True)
        """A leaf of the graph, which a backward pass reaches where it would reach a weight that is left out of it."""
        self.filled: dict[int, int] = {}
        """By parameter: the backward pass whose gradients it holds."""
        self.within = set[int]()
        """Parameters that a call of their layer in the batch under way has in the graph."""
        self.alone: dict[int, str] = {}
        """By parameter: its name, where its gradients take a pass of the whole network for each example."""
        self.hooked: dict[LayerHook, nn.Module] = {}
        """The layers with hooks."""
        self.network = WholeNetwork()
        self.arguments = Arguments()
        self.rows = 0
        """Examples of the forward pass under way."""
        self.watch: trial.Watch | None = None
        """What a trial of the hooks notes."""
        self.place = 0
        """Of the pass under way among those of its batch, or part of one, that have gradients."""
        self.under_way = self._unseen = False
        self._left = 0
        self._taken_out: list[nn.Parameter] = []

    def begin(self, training: bool) -> None:
        self.number += 1
        self.place += training and torch.is_grad_enabled()
        self.last = "eval" if not training else "training" if torch.is_grad_enabled() else "no_grad"

    def say_unseen(self, what: str) -> None:
        """Say once that a look saw nothing."""
        if not self._unseen:
            self._unseen = True
            _log.warning("whose the rows of layers are was not seen %s; check_rows_apart compares its records", what)

    def forget(self) -> None:
        """Before the first forward pass of a batch, or of a part of it: the passes so far are left out."""
        self._left, self.last, self.place = self.number, None, 0
        self.number += 1
        self.filled.clear()
        self.within.clear()

    def take_out(self, p: nn.Parameter) -> None:
        """Take a parameter out of the graph for the call of its layer under way."""
        p.requires_grad_(False)
        self._taken_out.append(p)

    def put_back(self) -> None:
        """What was taken out is trained again, also where a call was broken off: KeyboardInterrupt passes hooks by."""
        while self._taken_out:
            self._taken_out.pop().requires_grad_(True)

    def pending(self) -> bool:
        """Whether an earlier forward pass of the batch under way waits for its backward pass."""
        numbers = {call.number for hook in self.hooked for call in hook._calls}
        return any(self._left < number < self.number for number in numbers)

    def left_out(self, number: int) -> bool:
        """Whether a forward pass was one of an earlier batch or part."""
        return number <= self._left

    def of_hooks(self, params: Iterable[nn.Parameter]) -> list[nn.Parameter]:
        """Those of some parameters whose gradients come from the hooks of layers."""
        return [p for p in params if id(p) not in self.alone] if self.alone else list(params)

    def strays(self, p: torch.Tensor) -> bool:
        """Whether a gradient that ``backward()`` has left at a parameter came past the calls of its layer."""
        return id(p) not in self.alone and id(p) not in self.within and p.grad is not None and bool(p.grad.any())

    def counts(self, number: int, ends: tuple[torch.Tensor, ...], label: str) -> bool:
        """Whether the gradient of an output of a forward pass, which has come, is one of per-example gradients.

        It may leave gradients at the parameters ``ends``.
        """
        if not self.enabled:
            return False
        if torch.is_grad_enabled():
            raise ArgumentError(
                "backward passes",
                "not be differentiated again",
                label,
                got=f"create_graph=True through {label}",
                then=": a gradient penalty has no per-sample gradients here; take a penalty without double backward, a difference of "
                "outputs for instance",
            )
        if not ends or not (self.of_inputs_too or _reached(ends)):
            return False
        if self.watch is None and self.left_out(number):
            raise ArgumentError(
                "backward()",
                "follow the forward pass of its own batch or part",
                label,
                got=f"one through {label} of an earlier one",
                then=": each example is to count once; call backward() before the next batch is drawn, and zero_grad() before the "
                "forward pass",
            )
        return True

    def add(
        self, p: Any, samples: Any, rows: int, label: str, *, task: int, gradient: torch.Tensor | None = None
    ) -> None:
        """Leave per-example gradients at a parameter, beside those that the same backward pass (``task``) has left there.

        A tensor may share memory with the ``gradient`` of the output, which is the loop's.
        """
        held: Any = getattr(p, "grad_sample", None)
        again = held is not None and self.filled.get(id(p)) == task
        if again and len(held) != rows and len(held) and rows and self.watch is None:  # nothing says which these are
            raise ArgumentError(
                "module",
                "take all examples of a batch in each of its forward passes",
                rows,
                got=f"{rows} and {len(held)} rows at {label} in passes of one backward()",
                then=": those of some would be taken for the first ones; hand it all, and weigh the losses of the others with 0",
            )
        if isinstance(samples, Representation) or (again and isinstance(held, Representation)):
            samples = (samples if isinstance(samples, Representation) else Formed(samples)).with_rows(rows)
            if again:
                samples = added(held if isinstance(held, Representation) else Formed(held), samples)
            elif held is not None:
                raise _earlier(label, used=getattr(held, "_processed", False))
            samples.note_writes()
            p.grad_sample = samples
            self.filled[id(p)] = task
            return
        samples = filled(samples, rows)
        if held is None:
            shared = gradient is not None and (
                samples.untyped_storage().data_ptr() == gradient.untyped_storage().data_ptr()
            )
            p.grad_sample = samples.clone() if shared and len(samples) else samples
        elif again:
            held = filled(held, len(samples))
            held = held.clone() if 0 in held.stride() else held  # one zero may stand for all examples
            held[: len(samples)] += samples
            p.grad_sample = held
        else:
            raise _earlier(label, used=getattr(held, "_processed", False))
        self.filled[id(p)] = task

    @property
    def recording(self) -> bool:
        model = None if self.model is None else self.model()
        return self.enabled and model is not None and model.training and torch.is_grad_enabled()

    def __reduce__(self) -> tuple[type["Passes"], tuple[()]]:
        return Passes, ()


class Resting:
    """What is left of a hook in a copy or a file."""

    def __call__(self, *_: Any) -> Any:
        return None


class _RestsInCopies:
    def __reduce__(self) -> tuple[type[Resting], tuple[()]]:
        return Resting, ()


class LayerHook(_RestsInCopies):
    """The forward hook of one layer, whose name and kind errors show (``label``)."""

    def __init__(self, passes: Passes, label: str, *, mean: bool, mode: str) -> None:
        self._passes = passes
        self._label = label
        self._mean = mean
        self._mode = mode
        self.left_out = False
        """Whether the call under way has the weight out of the graph."""
        self.of_packed = False
        """Whether later calls may have fewer rows, those of longer sequences."""
        self._places = Places()
        self._calls: weakref.WeakSet[_Recorded] = weakref.WeakSet()
        """Those whose backward pass may still come: the graph holds them, and nothing else."""

    @property
    def __name__(self) -> str:
        """torch.jit asks for it when it compiles a layer with hooks, which it cannot."""
        raise AttributeError(_STANDARD.format(layer=self._label))

    def factored(self, layer: nn.Module) -> bool:
        """Whether the layer's gradients are kept as factors."""
        return self._mode == FACTORS and has_factors(layer)

    def __call__(self, layer: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> Any:
        """Note the call, and hook its outputs; of several, one may be made of another, and each gets a view of its own."""
        left_out, self.left_out = self.left_out, False
        self._passes.put_back()
        params = self._passes.of_hooks(trained(layer)) if self._passes.recording else []
        if output is None or not params:
            return None
        if not self._passes.under_way and torch._C._current_graph_task_id() == -1:
            self._passes.say_unseen(f"in a call of {self._label} past the module that make_private returned")
        inside = [p for p in params if not (left_out and p is layer._parameters["weight"])]
        if self._passes.watch is None:
            self._passes.within.update(map(id, inside))
        if left_out and not inside:
            output = _watched(output, self._passes.reached)  # no other gradient of this layer would arrive
        if torch.compiler.is_compiling() or torch._C._is_tracing():
            raise ValueError(_STANDARD.format(layer=self._label))
        leaves, spec = tree.tree_flatten(output)
        outputs = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
        hooked = [(place, i) for place, i in enumerate(outputs) if leaves[i].requires_grad]
        if not hooked:
            return None
        given = call_of(layer, args, kwargs, leaves[hooked[0][1]], self._places)
        call = _Recorded(given, self._passes.number, left_out)
        self._calls.add(call)
        if self._passes.watch is not None:
            self._passes.watch.rows.setdefault(self, []).append(call.call.rows)
        for place, i in hooked:
            if len(hooked) > 1:
                leaves[i] = leaves[i].view_as(leaves[i])
            leaves[i].register_hook(partial(self._arrived, layer, call, place))
            if self._passes.watch is not None and not self.of_packed:
                self._passes.watch.outputs.append(leaves[i])
        return tree.tree_unflatten(leaves, spec) if len(hooked) > 1 or left_out else None

    def _arrived(self, layer: nn.Module, recorded: "_Recorded", place: int, gradient: torch.Tensor) -> None:
        """The gradient of an output, complete."""
        params = self._passes.of_hooks(trained(layer))
        ends: tuple[torch.Tensor, ...] = (*params, self._passes.reached) if recorded.left_out else tuple(params)
        if not params or not self._passes.counts(recorded.number, ends, self._label):
            return
        recorded.check_unwritten(self._label)
        rows, views = max(one.call.rows for one in self._calls if one.number == recorded.number), self._passes.views
        if recorded.call.rows not in (0, rows) and not self.of_packed and self._passes.watch is None:
            # nothing says whose they are, and the first examples would have them
            raise ArgumentError(
                "module",
                "call a layer with the same number of rows each time",
                recorded.call.rows,
                got=f"{recorded.call.rows} and {rows} at {self._label}",
                then=": expand one row that stands for all examples to the batch, or take grad_sample_mode='whole network'",
            )
        with torch.no_grad():
            try:
                rows = examples_of(rows, views, self._label)
                scaled = gradient.detach() * rows if self._mean else gradient.detach()
                if views > 1 and not self._mean:
                    scaled = scaled / views
                found = self._gradients(layer, recorded.call, place, scaled)
            except ValueError:
                if self._passes.watch is None:
                    raise
                self._passes.watch.failed.add(self)
                return
            task = torch._C._current_graph_task_id()
            for p in params:
                if p in found:
                    self._passes.add(p, found[p], rows, self._label, task=task, gradient=scaled)

    def _gradients(
        self, layer: nn.Module, call: Call, place: int, gradient: torch.Tensor
    ) -> Mapping[torch.Tensor, torch.Tensor | Representation]:
        views = self._passes.views
        own = examples_of(call.rows, views, self._label)
        try:
            if self.factored(layer):
                return factors_of(layer, call.tensors[0], gradient, rows=own, views=views)
            return of_a_call(layer, call, place, gradient, by_forward=self._mode == FUNCTORCH, views=views)
        except torch.OutOfMemoryError:
            raise
        except Exception as error:
            shapes = [tuple(one.shape) for one in call.tensors]
            first = str(error).strip().split("\n")[0][:160]
            raise ArgumentError(
                "module",
                "have layers whose examples can be told apart",
                self._label,
                got=f"{self._label}, called with tensors of shapes {shapes}: {first}; examples stand in the "
                "first dimension of its input and output",
            ) from error


def _earlier(label: str, *, used: bool) -> ArgumentError:
    if used:
        return ArgumentError.about(
            "zero_grad()",
            label,
            f"zero_grad() must come between step() and the next backward pass through {label}: it still has the "
            "per-sample gradients that step() has used; another loss through this model (a GAN's generator) needs it, too",
        )
    return ArgumentError(
        f"each backward pass through {label}",
        "have a step() of its own, by the optimizer that make_private returned",
        None,
        got="a second one",
        then=": add the losses and call "
        "backward() once, without retain_graph; call zero_grad() where another loss went through this model (a GAN's "
        "generator), use BatchMemoryManager for large batches, and checkpoint with use_reentrant=False",
    )


class ForEachExample(_RestsInCopies):
    """A forward pre-hook: a row that stands for the whole batch becomes one for each example, so that its gradient is apart."""

    def __init__(self, passes: Passes) -> None:
        self._passes = passes

    def __call__(self, _: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if not self._passes.recording or self._passes.rows == 1:
            return None
        leaves, spec = tree.tree_flatten((args, kwargs))
        tensors = [one for one in leaves if isinstance(one, torch.Tensor) and one.dim()]
        if not tensors or any(len(one) != 1 for one in tensors):
            return None
        rows = self._passes.rows
        parts = [
            one.expand(rows, *one.shape[1:]) if isinstance(one, torch.Tensor) and one.dim() else one for one in leaves
        ]
        return tree.tree_unflatten(parts, spec)


class WithoutWeight(_RestsInCopies):
    """A forward pre-hook: takes the weight out of the graph where nothing looks at its gradient, which costs as much as the forward.

    The layer's own hook puts it back.
    """

    def __init__(self, passes: Passes, hook: LayerHook) -> None:
        self._passes = passes
        self._hook = hook

    def __call__(self, layer: nn.Module, _: object) -> None:
        weight = layer._parameters["weight"]
        self._hook.left_out = False
        if weight is None or not (weight.requires_grad and self._passes.recording) or self._passes.looked_at(weight):
            return
        if id(weight) in self._passes.alone or self._passes.watch is not None:
            return  # whose gradient must be there
        if torch._C._functorch.maybe_current_level() is None:  # within torch.func no flag may change
            self._passes.take_out(weight)
            self._hook.left_out = True


class ForwardPass(_RestsInCopies):
    """A forward pre-hook of the whole model: calls back before a forward pass of training, but not where ``checkpoint`` repeats one."""

    def __init__(self, before: Callable[..., None]) -> None:
        self._before = before

    def __call__(self, module: nn.Module, *given: object) -> None:
        if module.training and torch.is_grad_enabled() and torch._C._current_graph_task_id() == -1:
            self._before(*given)


class _Recorded:
    """A call whose backward pass is to come."""

    def __init__(self, call: Call, number: int, left_out: bool) -> None:
        self.call = call
        self.number = number
        self.left_out = left_out
        """The weight is not in the graph."""
        self._writes = [writes(one) for one in call.tensors]

    def check_unwritten(self, label: str) -> None:
        if [writes(one) for one in self.call.tensors] != self._writes:
            raise ArgumentError(
                "inputs of layers",
                "stay as they are until backward()",
                label,
                got=f"one of {label} that was changed in place after the layer had read it",
                then=": write h = h + x for h += x",
            )


_STANDARD = (
    "export must be given a model without hooks of training, got {layer} of a private model: call to_standard_module()"
)


class _Watched(torch.autograd.Function):
    """The output of a layer with a place in the graph, also where no gradient goes on to what it came from."""

    @staticmethod
    def forward(ctx: Any, output: torch.Tensor, _: torch.Tensor) -> torch.Tensor:
        return output.detach()  # the same memory; marked as changed in place, a view's gradient would be copied

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor | None, torch.Tensor]:
        return gradient if ctx.needs_input_grad[0] else None, torch.zeros(0)


def _watched(output: torch.Tensor, reached: torch.Tensor) -> torch.Tensor:
    found: torch.Tensor = _Watched.apply(output, reached)  # type: ignore[no-untyped-call]
    return found


def _refuse_packed(layer: nn.Module, args: tuple[Any, ...]) -> None:
    """Packed sequences stand sorted by length: the rows of an example lie no longer together, and its gradient would hold others'."""
    if any(isinstance(one, nn.utils.rnn.PackedSequence) for one in args):
        raise ArgumentError(
            type(layer).__name__,
            "take padded sequences where examples have views",
            None,
            got="packed ones, which are sorted by length",
        )


def _always(_: torch.Tensor) -> bool:
    return True


def _reached(params: tuple[torch.Tensor, ...]) -> bool:
    """Whether this backward pass leaves a gradient at one of them; one for an input alone (an adversarial example) does not."""
    for p in params:
        node = torch.autograd.graph.get_gradient_edge(p).node
        try:
            if torch._C._will_engine_execute_node(node):
                return True
        except RuntimeError:  # torch.autograd.grad for parameters
            return True
    return False
