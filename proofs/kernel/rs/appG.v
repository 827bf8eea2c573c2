(* rs.appG: Zhu and Blaschko, Improving Differentially Private SGD via Randomly Sparsified Gradients (RS), the version with Lemma 3.3: Appendix G, eq. 113 to 116.
   Supposing kappa = sqrt(1 - r), the bound (113) is written U(r) = Delta_C / sqrt(1 - r) + sqrt(1 - r) Delta_sigma (114), and r* = 1 - Delta_C / Delta_sigma
   is best (116), or 0 where Delta_C > Delta_sigma. *)
From kernel Require Import definitions lemmas.

(* eq. 113 with the paper's kappa = sqrt(1 - r) *)
Definition bound (DC DS g r : R) : R := 1 / sqrt (1 - r) * DC + (1 - r) / sqrt (1 - r) * g * DS.
Definition best (DC DS : R) : R := if Rle_dec DC DS then 1 - DC / DS else 0.
Definition printed : Prop := forall DC DS g, 0 < DC -> 0 < DS -> 0 < g ->
  forall r, 0 <= r < 1 -> bound DC DS g (best DC DS) <= bound DC DS g r.
Definition correction : Prop := forall DC DS g, 0 < DC -> 0 < DS -> 0 < g ->
  forall r, 0 <= r < 1 -> bound DC DS g (best DC (g * DS)) <= bound DC DS g r.

Lemma half s : s = sqrt (1 - 1 / 2) -> 0 < s /\ s * s = 1 / 2.
Proof. intros ->. split; [apply sqrt_lt_R0; lra | rewrite sqrt_sqrt; lra]. Qed.
(* Delta_C = 1, Delta_sigma = 2, gamma = 1/2: printed r* = 1/2, where the bound is 3 / sqrt 2 = 2.12; at r = 0 it is 2 *)
Theorem printed_is_false : ~ printed.
Proof.
  intro claim. specialize (claim 1 2 (1 / 2) ltac:(lra) ltac:(lra) ltac:(lra) 0 ltac:(lra)).
  unfold best in claim. destruct (Rle_dec 1 2) as [_|no]; [|apply no; lra].
  replace (1 - 1 / 2) with (1 / 2) in claim by lra. unfold bound in claim. rewrite !Rminus_0_r, sqrt_1 in claim. remember (sqrt (1 - 1 / 2)) as s eqn:es.
  destruct (half s es) as [s0 ss]. replace (1 - 1 / 2) with (s * s) in claim by lra.
  replace (1 / s * 1 + s * s / s * (1 / 2) * 2) with ((1 + s * s) / s) in claim by (field; lra).
  rewrite ss in claim. assert ((1 + 1 / 2) / s * s <= 2 * s) by (apply Rmult_le_compat_r; lra).
  replace ((1 + 1 / 2) / s * s) with (3 / 2) in H by (field; lra). nra.
Qed.
(* at s = sqrt(1 - r) the bound is DC / s + s N, N = gamma Delta_sigma *)
Lemma form DC DS g r : 0 <= r < 1 -> bound DC DS g r = DC / sqrt (1 - r) + sqrt (1 - r) * (g * DS).
Proof. intros [a b]. unfold bound. assert (0 < sqrt (1 - r)) by (apply sqrt_lt_R0; lra).
  replace (1 - r) with (sqrt (1 - r) * sqrt (1 - r)) at 2 by (apply sqrt_sqrt; lra). field; lra. Qed.
Lemma fall DC N s s' : 0 < s -> 0 < s' -> (s - s') * (DC - N * s * s') <= 0 -> DC / s' + s' * N <= DC / s + s * N.
Proof. intros a b h. assert (0 < s * s') by nra. apply (Rmult_le_reg_r (s * s')); [assumption|].
  replace ((DC / s' + s' * N) * (s * s')) with (DC * s + s' * s' * s * N) by (field; lra).
  replace ((DC / s + s * N) * (s * s')) with (DC * s' + s * s * s' * N) by (field; lra). nra. Qed.
Theorem correction_holds : correction.
Proof.
  intros DC DS g a b c r [r0 r1]. assert (N0 : 0 < g * DS) by nra. unfold best. set (N := g * DS) in *.
  assert (s0 : 0 < sqrt (1 - r)) by (apply sqrt_lt_R0; lra).
  assert (s1 : sqrt (1 - r) <= 1) by (rewrite <- sqrt_1 at 2; apply sqrt_le_1_alt; lra).
  destruct (Rle_dec DC N) as [le|gt].
  - assert (q0 : 0 < DC / N) by (apply Rdiv_lt_0_compat; lra).
    assert (q1 : DC / N <= 1) by (apply (Rmult_le_reg_r N); [lra|]; unfold Rdiv; rewrite Rmult_assoc, Rinv_l by lra; lra).
    rewrite (form DC DS g (1 - DC / N)), (form DC DS g r) by lra. fold N. replace (1 - (1 - DC / N)) with (DC / N) by ring.
    assert (t0 : 0 < sqrt (DC / N)) by (apply sqrt_lt_R0; exact q0).
    assert (tt : N * (sqrt (DC / N) * sqrt (DC / N)) = DC) by (rewrite sqrt_sqrt by lra; field; lra).
    apply fall; try assumption. set (t := sqrt (DC / N)) in *. set (s := sqrt (1 - r)) in *.
    replace ((s - t) * (DC - N * s * t)) with (- (N * t) * ((s - t) * (s - t))) by (rewrite <- tt; ring).
    assert (k : 0 <= N * t) by nra. pose proof (Rmult_le_pos _ _ k (Rle_0_sqr (s - t))) as z. unfold Rsqr in z. lra.
  - rewrite !form by lra. fold N. rewrite Rminus_0_r, sqrt_1. apply fall; try lra. set (s := sqrt (1 - r)) in *.
    assert (0 < DC - N * s * 1) by nra. nra.
Qed.
