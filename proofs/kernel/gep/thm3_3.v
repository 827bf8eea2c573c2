(* gep.thm3.3: Yu, Zhang, Chen, Liu, Do not let privacy overbill utility: gradient embedding perturbation for private learning (GEP), ICLR 2021: Theorem 3.3.
   Suppose L is 1-Lipschitz, convex and beta-smooth. If eta = 1/beta, T = n beta eps / sqrt p, thetabar = (1/T) sum_{t=1}^T theta_t, then
   E L(thetabar) - L(theta_opt) <= O(sqrt(k log(1/delta)) / (n eps) + rbar sqrt(p log(1/delta)) / (n eps)). *)
From kernel Require Import definitions lemmas.

From kernel Require Import gep.eq12.
(* As in gep.eq12 for one step, T = 1, k = 1, no residuals (rbar = 0); c is the constant of the O, which may depend on beta and the distance D = |theta_0 - theta_opt|. *)
Definition printed : Prop := exists (O : Type) (e : expectation O) (z : O -> R),
  has e z /\ ex e z = 0 /\ has e (fun o => z o * z o) /\ ex e (fun o => z o * z o) = 1 /\
  forall beta D, 0 < beta -> 0 < D -> exists c, forall n p eps delta L L' x xmin,
  0 < n -> 1 <= p -> 0 < eps -> 0 < delta < 1 -> eps < 2 * ln (1 / delta) ->
  n * beta * eps / sqrt p = 1 -> nice beta L L' -> (forall y, L xmin <= L y) -> Rabs (x - xmin) = D ->
  let sigma := 2 * sqrt (2 * ln (1 / delta)) / eps in
  has e (fun o => L (step beta (sigma / n) L' x (z o))) /\
  ex e (fun o => L (step beta (sigma / n) L' x (z o))) - L xmin <= c * (sqrt (ln (1 / delta)) / (n * eps)).

(* beta = D = eps = log(1/delta) = 1, slope 1/3, p = n^2: the excess is at least 1/6 for every n, the printed rate is 1/n *)
Lemma sixth {O} (e : expectation O) (z : O -> R) s : has e z -> ex e z = 0 -> has e (fun o => rounded (1 / 3) (step 1 s (slope (1 / 3)) 1 (z o))) ->
  1 / 6 <= ex e (fun o => rounded (1 / 3) (step 1 s (slope (1 / 3)) 1 (z o))).
Proof.
  intros h m hL. eapply Rle_trans; [|apply jensen; try eassumption; apply rounded_convex; lra].
  assert (slope (1 / 3) 1 = 1 / 3) by (cases; lra). rewrite H. unfold rounded. assert (slope (1 / 3) (1 - 1 / 3) = 1 / 3) by (cases; lra). rewrite H0. lra.
Qed.
Theorem printed_is_false : ~ printed.
Proof.
  intros (O & e & z & h & m & _ & _ & claim). destruct (claim 1 1 Rlt_0_1 Rlt_0_1) as (c & k). clear claim.
  set (n := 7 * Rabs c + 1). pose proof (Rabs_pos c). assert (n1 : 1 <= n) by (unfold n; lra).
  destruct (rounded_zero (1 / 3) ltac:(lra)) as [z0 low].
  assert (r : sqrt (n * n) = n) by (apply sqrt_square; lra).
  specialize (k n (n * n) 1 (exp (- 1)) (rounded (1 / 3)) (slope (1 / 3)) 1 0 ltac:(lra) ltac:(nra) Rlt_0_1 delta_range ltac:(rewrite log_e; lra)
    ltac:(rewrite r; field; lra) (rounded_nice (1 / 3) ltac:(lra)) low ltac:(rewrite Rabs_pos_eq; lra)).
  cbv zeta in k. rewrite log_e, z0, sqrt_1 in k. destruct k as [hL le]. pose proof (sixth e z _ h m hL) as ge.
  assert (c * (1 / (n * 1)) < 1 / 6).
  { apply (Rmult_lt_reg_r n); [lra|]. replace (c * (1 / (n * 1)) * n) with c by (field; lra). pose proof (Rle_abs c). unfold n. lra. }
  lra.
Qed.
