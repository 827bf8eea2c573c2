(* gip.norm: Improving differentially-private deep learning with gradients index pruning (GIP), anonymous submission under double-blind review: section 5, text before eq. 5.
   Under Assumption 1 (g ~ N(0, sigma_g^2)) we have E|g|_2 = d sigma_g. *)
From kernel Require Import definitions lemmas.

Definition printed : Prop := exists (O : Type) (e : expectation O) (n : nat -> O -> R), unit_noise e n /\
  forall d s, (0 < d)%nat -> 0 < s -> has e (fun o => norm (scale s (noise n d o))) /\
  ex e (fun o => norm (scale s (noise n d o))) = INR d * s.
(* at most s sqrt d *)
Definition correction : Prop := forall (O : Type) (e : expectation O) (n : nat -> O -> R), unit_noise e n ->
  forall d s, (0 < d)%nat -> 0 < s -> has e (fun o => norm (scale s (noise n d o))) ->
  ex e (fun o => norm (scale s (noise n d o))) <= s * sqrt (INR d).

Theorem correction_holds : correction.
Proof.
  intros O e n nz d s d0 s0 h. set (X := fun o => norm (scale s (noise n d o))) in *. set (mu := ex e X).
  pose proof (ex_noisy O e n nz d s (repeat true d) (zero d) (repeat_length _ _) (length_zero d)) as q.
  pose proof (has_noisy O e n nz d s (repeat true d) (zero d) (repeat_length _ _) (length_zero d)) as q'.
  assert (eq : forall o, square (add (zero d) (mask (repeat true d) (scale s (noise n d o)))) = X o * X o).
  { intro o. unfold X. rewrite norm_norm. replace d with (length (scale s (noise n d o))) at 2 by (rewrite length_scale; apply length_noise).
    rewrite mask_all, square_add, dot_zero by (rewrite length_zero, length_scale, length_noise; reflexivity).
    unfold square at 1. rewrite dot_zero. ring. }
  rewrite (ex_ext e _ _ eq) in q. apply (has_ext e _ _ eq) in q'. rewrite ones_all in q. unfold square in q. rewrite dot_zero in q.
  assert (var : 0 <= ex e (fun o => 1 * (X o * X o) + 1 * (-2 * mu * X o + mu * mu))).
  { apply ex_positive; [|intro o; pose proof (Rle_0_sqr (X o - mu)) as z; unfold Rsqr in z; lra].
    apply has_linear; [exact q' | apply has_add; [apply has_scale, h | apply has_constant]]. }
  rewrite (ex_linear e 1 1 _ _ q' (has_add e _ _ (has_scale e _ _ h) (has_constant e _))) in var.
  rewrite (ex_add e _ _ (has_scale e (-2 * mu) _ h) (has_constant e (mu * mu))), (ex_scale e _ _ h), ex_constant, q in var. fold mu in var.
  apply Rsqr_incr_0_var; [|apply Rmult_le_pos; [lra | apply sqrt_pos]]. unfold Rsqr.
  replace (s * sqrt (INR d) * (s * sqrt (INR d))) with (s ^ 2 * (sqrt (INR d) * sqrt (INR d))) by ring.
  rewrite sqrt_sqrt by apply pos_INR. fold mu. lra.
Qed.
(* d = 4: at most 2 s, printed 4 s *)
Theorem printed_is_false : ~ printed.
Proof.
  intros (O & e & n & nz & claim). destruct (claim 4%nat 1 ltac:(lia) ltac:(lra)) as [h q].
  pose proof (correction_holds O e n nz 4%nat 1 ltac:(lia) ltac:(lra) h) as le. rewrite q in le.
  replace (INR 4) with (2 * 2) in le by (simpl; ring). rewrite sqrt_square in le by lra. lra.
Qed.
