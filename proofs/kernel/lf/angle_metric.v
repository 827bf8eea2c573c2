(* lf.angle_metric: DP-SGD-LF: Improving utility under differentially private learning via layer freezing (LF), anonymous submission under double-blind review: section 3.3, after Lemma 3.1.
   "Finally, we explain why gamma_t is an effective metric for utility. [...] a larger bias (gamma_t^B) and variance (sigma_DP) make the upper-bound larger, and could
   potentially lead to worse model performance". Refuted is the reading that a signal at a smaller angle makes at least as much progress, whatever its length. *)
From kernel Require Import definitions lemmas.

(* progress of a step of size eta along the signal s on f = |theta|^2 / 2 at theta, whose gradient is theta *)
Definition progress (eta : R) (theta s : vec) : R := square theta / 2 - square (sub theta (scale eta s)) / 2.
Definition reading : Prop := forall d eta theta s s', length theta = d -> length s = d -> length s' = d -> 0 < eta ->
  0 < norm theta -> 0 < norm s -> 0 < norm s' ->
  angle theta s < angle theta s' -> progress eta theta s' <= progress eta theta s.
(* at the same norm of the signal it is *)
Definition correction : Prop := forall d eta theta s s', length theta = d -> length s = d -> length s' = d -> 0 < eta ->
  0 < norm theta -> 0 < norm s -> 0 < norm s' -> norm s = norm s' ->
  angle theta s < angle theta s' -> progress eta theta s' <= progress eta theta s.

(* theta = (1, 0), eta = 1/2: (1/100, 0) at 0 degrees gains .005, (9/10, 3/10) at 18.4 degrees gains .3375 *)
Theorem reading_is_false : ~ reading.
Proof.
  intro claim. assert (n1 : norm [1; 0] = 1) by norm_of. assert (n2 : norm [1 / 100; 0] = 1 / 100) by norm_of.
  assert (p3 : 0 < norm [9 / 10; 3 / 10]) by (apply norm_pos; unfold square, dot; simpl; lra).
  specialize (claim 2%nat (1 / 2) [1; 0] [1 / 100; 0] [9 / 10; 3 / 10] eq_refl eq_refl eq_refl ltac:(lra) ltac:(lra) ltac:(lra) p3).
  assert (a : angle [1; 0] [1 / 100; 0] < angle [1; 0] [9 / 10; 3 / 10]).
  { apply angle_lt. apply Rle_lt_trans with (99 / 100).
    - apply cosine_le; try lra; unfold square, dot; simpl; lra.
    - unfold cosine. rewrite n1, n2. unfold dot; simpl. lra. }
  specialize (claim a). unfold progress, square, dot in claim. simpl in claim. lra.
Qed.
Theorem correction_holds : correction.
Proof.
  intros d eta theta s s' et es es' e0 t0 s0 s0' same a. apply angle_lt in a. unfold progress.
  rewrite !square_sub by (rewrite length_scale; congruence). rewrite !square_scale, <- !(norm_norm s), <- !(norm_norm s'), same.
  rewrite !(dot_comm theta), !dot_scale, !(dot_comm _ theta).
  assert (dot theta s' <= dot theta s).
  { assert (N : 0 < norm theta * norm s) by nra. unfold cosine in a. rewrite <- same in a.
    assert (dot theta s' / (norm theta * norm s) * (norm theta * norm s) < dot theta s / (norm theta * norm s) * (norm theta * norm s)) by (apply Rmult_lt_compat_r; assumption).
    unfold Rdiv in H. rewrite !Rmult_assoc, Rinv_l in H by lra. lra. }
  nra.
Qed.
