(* gip.criterion: Improving differentially-private deep learning with gradients index pruning (GIP), anonymous submission under double-blind review: section 5, first paragraph, and the text below Corollary 1.
   "The less error included, the less the update deviates from the original descent direction, which leads to a smaller accumulated error in the end." *)
From kernel Require Import definitions lemmas.

From kernel Require Import rf.mse_criterion.
(* Pruned: top-k, perturbed by the Mallows model around a top-k set I0; s = sigma C. The loss |v|^2 / 2 has the gradient g at g. *)
Definition largest (g : vec) (I : list bool) : Prop :=               (* no entry left out is larger than one kept *)
  forall i j, (i < length g)%nat -> (j < length g)%nat -> nth i I false = true -> nth j I false = false ->
  Rabs (entry g j) <= Rabs (entry g i).
Definition mallows (d K : nat) (theta : R) (I0 : list bool) (f : list bool -> R) : R :=
  over_masks d K (fun I => exp (- theta * INR (distance I I0)) * f I) / over_masks d K (fun I => exp (- theta * INR (distance I I0))).
Definition pruned {O} (n : nat -> O -> R) d s (g : vec) (I : list bool) (o : O) : vec := mask I (add g (scale s (noise n d o))).
Definition noisy {O} (n : nat -> O -> R) d s (g : vec) (o : O) : vec := add g (scale s (noise n d o)).
(* where the error of the pruned update is the smaller one, some step size of it ends no higher than any of DP-SGD *)
Definition printed : Prop := exists (O : Type) (e : expectation O) (n : nat -> O -> R), unit_noise e n /\
  forall d K theta s g I0, (0 < K < d)%nat -> 0 <= theta -> 0 < s -> length g = d -> In I0 (masks d K) -> largest g I0 ->
  mallows d K theta I0 (fun I => ex e (fun o => error g (pruned n d s g I o))) < ex e (fun o => error g (noisy n d s g o)) ->
  forall c, 0 < c -> exists c', 0 < c' /\
  mallows d K theta I0 (fun I => ex e (fun o => after c' g (pruned n d s g I o))) <= ex e (fun o => after c g (noisy n d s g o)).
