(* gip.criterion: Improving differentially-private deep learning with gradients index pruning (GIP), anonymous submission under double-blind review: section 5, first paragraph, and the text below Corollary 1.
   "As gradient descent is taken in each iteration, we consider the less error included, the less the update deviates from the original descent direction, which
   leads to a smaller accumulated error in the end." Refuted is the reading as a criterion on the loss: where the error of the pruned update is the smaller one,
   its best step ends no higher. *)
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
Definition reading : Prop := exists (O : Type) (e : expectation O) (n : nat -> O -> R), unit_noise e n /\
  forall d K theta s g I0, (0 < K < d)%nat -> 0 <= theta -> 0 < s -> length g = d -> In I0 (masks d K) -> largest g I0 ->
  mallows d K theta I0 (fun I => ex e (fun o => error g (pruned n d s g I o))) < ex e (fun o => error g (noisy n d s g o)) ->
  forall c, 0 < c -> exists c', 0 < c' /\
  mallows d K theta I0 (fun I => ex e (fun o => after c' g (pruned n d s g I o))) <= ex e (fun o => after c g (noisy n d s g o)).

(* g = (1, 1), s = 2, one of two entries kept, theta = 0: the error falls from 8 to 5, the best expected decrease from 1/5 to 1/10 *)
Section Numbers.
Variables (O : Type) (e : expectation O) (n : nat -> O -> R).
Hypothesis (nz : unit_noise e n).
Ltac shape f c a b p q := rewrite (ex_ext e _ (fun o => c + a * n 0%nat o + b * n 1%nat o + p * (n 0%nat o * n 0%nat o)
    + q * (n 1%nat o * n 1%nat o) + 0 * (n 0%nat o * n 1%nat o)));
  [rewrite (ex_two O e n nz); try lra | intro o; unfold f, pruned, noisy, loss, noise, square, dot; simpl; lra].
Lemma error_noisy : ex e (fun o => error [1; 1] (noisy n 2 2 [1; 1] o)) = 8.
Proof. shape error 0 0 0 4 4. Qed.
Lemma error_pruned I : In I (masks 2 1) -> ex e (fun o => error [1; 1] (pruned n 2 2 [1; 1] I o)) = 5.
Proof. simpl. intros [<-|[<-|[]]]; [shape error 1 0 0 4 0 | shape error 1 0 0 0 4]. Qed.
Lemma after_noisy c : ex e (fun o => after c [1; 1] (noisy n 2 2 [1; 1] o)) = (1 - c) ^ 2 + 4 * c ^ 2.
Proof. shape after ((1 - c) ^ 2) (-2 * c * (1 - c)) (-2 * c * (1 - c)) (2 * c ^ 2) (2 * c ^ 2). Qed.
Lemma after_pruned c I : In I (masks 2 1) -> ex e (fun o => after c [1; 1] (pruned n 2 2 [1; 1] I o)) = ((1 - c) ^ 2 + 1) / 2 + 2 * c ^ 2.
Proof. simpl. intros [<-|[<-|[]]]; [shape after (((1 - c) ^ 2 + 1) / 2) (-2 * c * (1 - c)) 0 (2 * c ^ 2) 0
  | shape after (((1 - c) ^ 2 + 1) / 2) 0 (-2 * c * (1 - c)) 0 (2 * c ^ 2)]. Qed.
End Numbers.
Lemma mallows_same theta I0 f c : (forall I, In I (masks 2 1) -> f I = c) -> mallows 2 1 theta I0 f = c.
Proof.
  intro h. unfold mallows, over_masks. cbn [masks map app total fold_right]. rewrite !h by (simpl; auto).
  set (a := exp _). set (b := exp _). assert (0 < a) by apply exp_pos. assert (0 < b) by apply exp_pos. field. lra.
Qed.
Theorem reading_is_false : ~ reading.
Proof.
  intros (O & e & n & nz & claim).
  specialize (claim 2%nat 1%nat 0 2 [1; 1] [true; false] ltac:(lia) ltac:(lra) ltac:(lra) eq_refl ltac:(simpl; auto)).
  rewrite (mallows_same _ _ _ 5) in claim by apply (error_pruned O e n nz). rewrite (error_noisy O e n nz) in claim.
  destruct (fun l => claim l ltac:(lra) (1 / 5) ltac:(lra)) as (c & c0 & le).
  { intros i j li lj _ _. simpl in li, lj. destruct i as [|[|i]], j as [|[|j]]; try lia; right; reflexivity. }
  rewrite (mallows_same _ _ _ (((1 - c) ^ 2 + 1) / 2 + 2 * c ^ 2)) in le by (intros; apply (after_pruned O e n nz); assumption).
  rewrite (after_noisy O e n nz) in le. nra.
Qed.
