(* gep.independent_p: Yu, Zhang, Chen, Liu, Do not let privacy overbill utility: gradient embedding perturbation for private learning (GEP), ICLR 2021: section 3.3, after Theorem 3.3.
   If the gradients stay in a k-dimensional subspace, rbar = 0 and the excess error is O(sqrt(k log(1/delta)) / (n eps)), independent of the ambient dimension p. *)
From kernel Require Import definitions lemmas.

From kernel Require Import gep.eq12 gep.thm3_3.
(* At the theorem's T = n beta eps / sqrt p = 1, with all gradients on one line, k = 1: the error at every p is at most c times the rate, c independent of p. *)
Definition printed : Prop := exists (O : Type) (e : expectation O) (z : O -> R),
  has e z /\ ex e z = 0 /\ has e (fun o => z o * z o) /\ ex e (fun o => z o * z o) = 1 /\
  forall beta D eps delta, 0 < beta -> 0 < D -> 0 < eps -> 0 < delta < 1 -> eps < 2 * ln (1 / delta) ->
  exists c, forall n p L L' x xmin, 0 < n -> 1 <= p ->
  n * beta * eps / sqrt p = 1 -> nice beta L L' -> (forall y, L xmin <= L y) -> Rabs (x - xmin) = D ->
  let sigma := 2 * sqrt (2 * ln (1 / delta)) / eps in
  has e (fun o => L (step beta (sigma / n) L' x (z o))) /\
  ex e (fun o => L (step beta (sigma / n) L' x (z o))) - L xmin <= c * (sqrt (ln (1 / delta)) / (n * eps)).
(* as for gep.thm3.3: at p = n^2 the excess is at least 1/6 *)
Theorem printed_is_false : ~ printed.
Proof.
  intros (O & e & z & h & m & _ & _ & claim).
  destruct (claim 1 1 1 (exp (- 1)) Rlt_0_1 Rlt_0_1 Rlt_0_1 delta_range ltac:(rewrite log_e; lra)) as (c & k). clear claim.
  set (n := 7 * Rabs c + 1). pose proof (Rabs_pos c). assert (n1 : 1 <= n) by (unfold n; lra).
  destruct (rounded_zero (1 / 3) ltac:(lra)) as [z0 low].
  assert (r : sqrt (n * n) = n) by (apply sqrt_square; lra).
  specialize (k n (n * n) (rounded (1 / 3)) (slope (1 / 3)) 1 0 ltac:(lra) ltac:(nra)
    ltac:(rewrite r; field; lra) (rounded_nice (1 / 3) ltac:(lra)) low ltac:(rewrite Rabs_pos_eq; lra)).
  cbv zeta in k. rewrite log_e, z0, sqrt_1 in k. destruct k as [hL le]. pose proof (sixth e z _ h m hL) as ge.
  assert (c * (1 / (n * 1)) < 1 / 6).
  { apply (Rmult_lt_reg_r n); [lra|]. replace (c * (1 / (n * 1)) * n) with c by (field; lra). pose proof (Rle_abs c). unfold n. lra. }
  lra.
Qed.
