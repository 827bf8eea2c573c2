(* gep.eq12: Yu, Zhang, Chen, Liu, Do not let privacy overbill utility: gradient embedding perturbation for private learning (GEP), ICLR 2021: proof of Theorem 3.3, eq. 12.
   E L(thetabar) - L(theta_opt) <= beta/(2T) |theta_0 - theta_opt| + sigma^2/(beta n^2) (k + (p/T) sum_t r_t^2), for L convex, 1-Lipschitz and beta-smooth, eta = 1/beta,
   thetabar = (1/T) sum_{t=1}^T theta_t, theta_{t+1} = theta_t - eta (grad L(theta_t) + zeta_t). *)
From kernel Require Import definitions lemmas.

(* The case of one step, T = 1, in one direction: k = 1, no residuals, all gradients along one coordinate x.
   L is a function of it with derivative L'; s = sigma / n; e is the expectation over the step's noise z of mean 0 and variance 1. *)
Definition convex (L : R -> R) (L' : R -> R) : Prop := forall x y, L x + L' x * (y - x) <= L y.
Definition nice (beta : R) (L L' : R -> R) : Prop :=
  (forall x, derivable_pt_lim L x (L' x)) /\ convex L L' /\
  (forall x, Rabs (L' x) <= 1) /\ forall x y, Rabs (L' x - L' y) <= beta * Rabs (x - y).
Definition step (beta s : R) (L' : R -> R) (x z : R) : R := x - 1 / beta * (L' x + s * z).
(* the noise of Theorem 3.2: sigma = 2 sqrt(2 T log(1/delta)) / eps, T = n beta eps / sqrt p = 1 *)
Definition printed : Prop := exists (O : Type) (e : expectation O) (z : O -> R),
  has e z /\ ex e z = 0 /\ has e (fun o => z o * z o) /\ ex e (fun o => z o * z o) = 1 /\
  forall beta n p eps delta L L' x xmin, 0 < beta -> 0 < n -> 1 <= p -> 0 < eps -> 0 < delta < 1 -> eps < 2 * ln (1 / delta) ->
  n * beta * eps / sqrt p = 1 -> nice beta L L' -> (forall y, L xmin <= L y) ->
  let sigma := 2 * sqrt (2 * ln (1 / delta)) / eps in
  has e (fun o => L (step beta (sigma / n) L' x (z o))) /\
  ex e (fun o => L (step beta (sigma / n) L' x (z o))) - L xmin
  <= beta / 2 * Rabs (x - xmin) + sigma ^ 2 / (beta * n ^ 2) * 1.

(* the rounded g|x|: x^2 / 2 for |x| <= g, g|x| - g^2 / 2 beyond *)
Definition slope (g x : R) : R := if Rle_dec x (- g) then - g else if Rle_dec g x then g else x.
Definition rounded (g x : R) : R := x * slope g x - slope g x * slope g x / 2.
Ltac cases := unfold rounded, slope; repeat match goal with |- context [Rle_dec ?a ?b] => destruct (Rle_dec a b) end.
Lemma slope_range g x : 0 < g -> - g <= slope g x <= g.
Proof. intro. cases; lra. Qed.
Lemma slope_best g x c : 0 < g -> - g <= c <= g -> 0 <= (slope g x - c) * (x - slope g x).
Proof. intros g0 [a b]. cases; nra. Qed.
Lemma rounded_convex g : 0 < g -> convex (rounded g) (slope g).
Proof.
  intros g0 x y. pose proof (slope_best g y (slope g x) g0 (slope_range g x g0)). unfold rounded.
  pose proof (Rle_0_sqr (slope g y - slope g x)) as q. unfold Rsqr in q. lra.
Qed.
Lemma rounded_upper g x y : 0 < g -> rounded g y - rounded g x - slope g x * (y - x) <= (y - x) * (y - x) / 2.
Proof.
  intro g0. pose proof (slope_best g x (slope g y) g0 (slope_range g y g0)). unfold rounded.
  pose proof (Rle_0_sqr (y - x - (slope g y - slope g x))) as q. unfold Rsqr in q. lra.
Qed.
Lemma rounded_nice g : 0 < g <= 1 -> nice 1 (rounded g) (slope g).
Proof.
  intros [g0 g1]. split; [|split; [apply rounded_convex, g0|split]].
  - intros x eps e0. exists (mkposreal eps e0). intros h h0 hd. simpl in hd.
    pose proof (rounded_convex g g0 x (x + h)) as a. pose proof (rounded_upper g x (x + h) g0) as b. replace (x + h - x) with h in * by ring.
    replace ((rounded g (x + h) - rounded g x) / h - slope g x) with ((rounded g (x + h) - rounded g x - slope g x * h) * / h) by (field; exact h0).
    set (D := rounded g (x + h) - rounded g x - slope g x * h) in *. assert (0 <= D) by (unfold D; lra).
    rewrite Rabs_mult, (Rabs_pos_eq D), Rabs_inv by assumption. pose proof (Rabs_pos_lt h h0).
    apply (Rmult_lt_reg_r (Rabs h)); [assumption|]. rewrite Rmult_assoc, Rinv_l, Rmult_1_r by lra.
    assert (h * h = Rabs h * Rabs h) by apply Rsqr_abs. nra.
  - intro x. apply Rabs_le. cases; lra.
  - intros x y. rewrite Rmult_1_l. cases; unfold Rabs; repeat match goal with |- context [Rcase_abs ?a] => destruct (Rcase_abs a) end; lra.
Qed.
Lemma rounded_zero g : 0 < g -> rounded g 0 = 0 /\ forall y, rounded g 0 <= rounded g y.
Proof.
  intro g0. assert (z : slope g 0 = 0) by (cases; lra). assert (r : rounded g 0 = 0) by (unfold rounded; rewrite z; lra).
  split; [exact r|]. intro y. pose proof (rounded_convex g g0 0 y) as c. rewrite z in c. lra.
Qed.
(* whatever the noise of mean 0, the excess after one step is at least L(x - L'(x)) *)
Lemma jensen {O} (e : expectation O) (z : O -> R) L L' s x : convex L L' -> has e z -> ex e z = 0 ->
  has e (fun o => L (step 1 s L' x (z o))) -> L (x - L' x) <= ex e (fun o => L (step 1 s L' x (z o))).
Proof.
  intros c h m hL. set (y := x - L' x). set (f := fun o => L (step 1 s L' x (z o))) in *.
  assert (p : 0 <= ex e (fun o => 1 * f o + 1 * (- L y + L' y * s * z o))).
  { apply ex_positive; [apply has_linear; [exact hL | apply has_add; [apply has_constant | apply has_scale, h]]|].
    intro o. unfold f. specialize (c y (step 1 s L' x (z o))).
    replace (step 1 s L' x (z o) - y) with (- (s * z o)) in c by (unfold step, y; field). lra. }
  rewrite (ex_linear e 1 1 _ _ hL (has_add e _ _ (has_constant e (- L y)) (has_scale e (L' y * s) _ h))) in p.
  rewrite (ex_add e _ _ (has_constant e (- L y)) (has_scale e (L' y * s) _ h)), ex_constant, (ex_scale e _ _ h), m in p. lra.
Qed.
Lemma log_e : ln (1 / exp (- 1)) = 1.
Proof.
  assert (e : exp (- 1) = / exp 1) by (replace (- 1) with (Ropp 1) by lra; apply exp_Ropp).
  rewrite e. replace (1 / / exp 1) with (exp 1) by (field; apply Rgt_not_eq, exp_pos). apply ln_exp.
Qed.
Lemma delta_range : 0 < exp (- 1) < 1.
Proof. split; [apply exp_pos|]. rewrite <- exp_0. apply exp_increasing. lra. Qed.
(* slope 1, D = 4, p = 100, n = 10, eps = log(1/delta) = 1: the excess is at least 5/2, printed 52/25; for every noise under which it exists *)
Lemma numbers {O} (e : expectation O) (z : O -> R) s : has e z -> ex e z = 0 -> has e (fun o => rounded 1 (step 1 s (slope 1) 4 (z o))) ->
  5 / 2 <= ex e (fun o => rounded 1 (step 1 s (slope 1) 4 (z o))).
Proof.
  intros h m hL. eapply Rle_trans; [|apply jensen; try eassumption; apply rounded_convex; lra].
  assert (slope 1 4 = 1) by (cases; lra). rewrite H. unfold rounded. assert (slope 1 (4 - 1) = 1) by (cases; lra). rewrite H0. lra.
Qed.
Theorem printed_is_false : ~ printed.
Proof.
  intros (O & e & z & h & m & _ & _ & claim). assert (r10 : sqrt 100 = 10) by (replace 100 with (10 * 10) by ring; apply sqrt_square; lra).
  destruct (rounded_zero 1 Rlt_0_1) as [z0 low].
  specialize (claim 1 10 100 1 (exp (- 1)) (rounded 1) (slope 1) 4 0 Rlt_0_1 ltac:(lra) ltac:(lra) Rlt_0_1 delta_range ltac:(rewrite log_e; lra)
    ltac:(rewrite r10; field) (rounded_nice 1 ltac:(lra)) low). cbv zeta in claim. rewrite log_e, z0 in claim. destruct claim as [hL le].
  pose proof (numbers e z _ h m hL) as ge. rewrite Rabs_pos_eq in le by lra.
  assert (sq : (2 * sqrt (2 * 1) / 1) ^ 2 = 8).
  { replace ((2 * sqrt (2 * 1) / 1) ^ 2) with (4 * (sqrt (2 * 1) * sqrt (2 * 1))) by (unfold Rdiv; rewrite Rinv_1; ring). rewrite sqrt_sqrt by lra. ring. }
  rewrite sq in le. lra.
Qed.
