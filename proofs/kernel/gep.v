From kernel Require Import definitions lemmas.

(* gep.appB.memory: Yu, Zhang, Chen, Liu, Do not let privacy overbill utility: gradient embedding perturbation for private learning (GEP), ICLR 2021: Appendix B, Table 4.
   "Computational and memory costs of a single power iteration in Algorithm 1. [...] The memory cost is measured by the number of floating-point numbers we need to store":
   max(0, (m - n + k) p + m k), of the "additional costs" over conventional gradient perturbation, which stores n private gradients.
   Of the power iteration, as the caption says, it holds. Refuted is the reading as the additional memory of all of GEP.
   Doubt: which vectors are held at a time is ours; the paper gives the table alone. *)
Module appB_memory.
Definition stated (m n p k : Z) : Z := Z.max 0 ((m - n + k) * p + m * k).
(* in a power iteration: m anchor gradients, basis and anchor embeddings; what they need beyond the n p that are there anyway *)
Definition iteration (m n p k : Z) : Z := Z.max 0 (m * p + k * p + m * k - n * p)%Z.
Definition printed : Prop := forall m n p k, (0 < m)%Z -> (0 < n)%Z -> (0 < k <= p)%Z -> stated m n p k = iteration m n p k.
(* all of GEP: first the power iteration, then n private gradients, basis and their embeddings; the larger of both, beyond n p *)
Definition held (m n p k : Z) : Z := (Z.max (m * p + k * p + m * k) (n * p + k * p + n * k) - n * p)%Z.
Definition reading : Prop := forall m n p k, (0 < m)%Z -> (0 < n)%Z -> (0 < k <= p)%Z -> stated m n p k = held m n p k.
(* if and only if m >= n *)
Definition correction : Prop := forall m n p k, (0 < m)%Z -> (0 < n)%Z -> (0 < k <= p)%Z ->
  (stated m n p k = held m n p k <-> (n <= m)%Z).

Theorem printed_holds : printed.
Proof. intros m n p k _ _ _. unfold stated, iteration. f_equal. ring. Qed.
(* m = 1, n = 4, p = 6, k = 2: 20 are held beside the private gradients, printed 0 *)
Theorem reading_is_false : ~ reading.
Proof. intro claim. specialize (claim 1 4 6 2 ltac:(lia) ltac:(lia) ltac:(lia))%Z. discriminate claim. Qed.
Theorem correction_holds : correction.
Proof.
  intros m n p k m0 n0 [k0 kp]. unfold stated, held. split.
  - intro e. destruct (Z.le_gt_cases n m) as [l|l]; [exact l|exfalso].
    assert (m * p < n * p)%Z by nia. assert (m * k < n * k)%Z by nia. nia.
  - intro l. assert (n * p <= m * p)%Z by nia. assert (n * k <= m * k)%Z by nia. nia.
Qed.
End appB_memory.

(* gep.concat: Yu, Zhang, Chen, Liu, Do not let privacy overbill utility: gradient embedding perturbation for private learning (GEP), ICLR 2021: section 4, implementation details.
   Divide the clipped embedding of each record by S_1 and its clipped residual by S_2, concatenate, and sum over the records: the sum has sensitivity sqrt 2. *)
Module concat.
Definition record (S1 S2 : R) (w r : vec) : vec := scale (/ S1) (clip S1 w) ++ scale (/ S2) (clip S2 r).
Definition released D S1 S2 (data : list (vec * vec)) : vec := sum D (map (fun a => record S1 S2 (fst a) (snd a)) data).
(* one record added; every record has k + p = D entries *)
Definition printed : Prop := forall D S1 S2 w r data, 0 < S1 -> 0 < S2 ->
  Forall (fun a => length (fst a ++ snd a) = D) ((w, r) :: data) ->
  norm (sub (released D S1 S2 ((w, r) :: data)) (released D S1 S2 data)) <= sqrt 2.

Lemma part S v : 0 < S -> square (scale (/ S) (clip S v)) <= 1.
Proof.
  intro S0. rewrite square_scale, <- norm_norm. pose proof (norm_clip_le S v ltac:(lra)). pose proof (norm_nonneg (clip S v)).
  assert (0 < / S) by (apply Rinv_0_lt_compat; exact S0). assert (i : / S * S = 1) by (field; lra).
  assert (a : / S * norm (clip S v) <= 1) by (rewrite <- i; apply Rmult_le_compat_l; lra). assert (0 <= / S * norm (clip S v)) by (apply Rmult_le_pos; lra).
  replace (/ S * / S * (norm (clip S v) * norm (clip S v))) with (/ S * norm (clip S v) * (/ S * norm (clip S v))) by ring. nra.
Qed.
Theorem printed_holds : printed.
Proof.
  intros D S1 S2 w r data a b F. unfold released. cbn [map]. unfold sum. cbn [fold_right fst snd].
  assert (L : forall x y, length (record S1 S2 x y) = length (x ++ y)) by (intros; unfold record; rewrite !app_length, !length_scale, !length_clip; reflexivity).
  rewrite sub_same.
  - unfold record, norm. apply sqrt_le_1_alt. rewrite square_app. pose proof (part S1 w a). pose proof (part S2 r b). lra.
  - rewrite L. pose proof (Forall_inv F) as q. cbn [fst snd] in q. rewrite q. symmetry. apply (length_sum D). apply Forall_map. eapply Forall_impl; [|apply (Forall_inv_tail F)].
    simpl. intros [x y] l. rewrite L. exact l.
Qed.
End concat.

(* gep.eq12: Yu, Zhang, Chen, Liu, Do not let privacy overbill utility: gradient embedding perturbation for private learning (GEP), ICLR 2021: proof of Theorem 3.3, eq. 12.
   E L(thetabar) - L(theta_opt) <= beta/(2T) |theta_0 - theta_opt| + sigma^2/(beta n^2) (k + (p/T) sum_t r_t^2), for L convex, 1-Lipschitz and beta-smooth, eta = 1/beta,
   thetabar = (1/T) sum_{t=1}^T theta_t, theta_{t+1} = theta_t - eta (grad L(theta_t) + zeta_t). *)
Module eq12.
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
End eq12.

(* gep.thm3.3: Yu, Zhang, Chen, Liu, Do not let privacy overbill utility: gradient embedding perturbation for private learning (GEP), ICLR 2021: Theorem 3.3.
   Suppose L is 1-Lipschitz, convex and beta-smooth. If eta = 1/beta, T = n beta eps / sqrt p, thetabar = (1/T) sum_{t=1}^T theta_t, then
   E L(thetabar) - L(theta_opt) <= O(sqrt(k log(1/delta)) / (n eps) + rbar sqrt(p log(1/delta)) / (n eps)). *)
Module thm3_3.
Import gep.eq12.
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
End thm3_3.

(* gep.independent_p: Yu, Zhang, Chen, Liu, Do not let privacy overbill utility: gradient embedding perturbation for private learning (GEP), ICLR 2021: section 3.3, after Theorem 3.3.
   If the gradients stay in a k-dimensional subspace, rbar = 0 and the excess error is O(sqrt(k log(1/delta)) / (n eps)), independent of the ambient dimension p. *)
Module independent_p.
Import gep.eq12 gep.thm3_3.
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
End independent_p.

(* gep.lem3.2.text: Yu, Zhang, Chen, Liu, Do not let privacy overbill utility: gradient embedding perturbation for private learning (GEP), ICLR 2021: section 3.2, after Lemma 3.2.
   "From Lemma 3.2, we can see the larger the number of anchor gradients and the dimension of the anchor subspace k, the smaller the residual gradients."
   Stated as printed is the number m of anchors, at k = 1, on average over the anchors; in k the residual does not rise.
   Doubt: covariances are taken without subtracting the mean, as E|xi|^4 - sum lambda_i^2 in the lemma suggests. *)
Module lem3_2_text.
(* the lemma's setting: xi of a finite law p, bounded; m anchors drawn from it; the line through 0 in which they have most energy *)
Definition energy (gs : list vec) (b : vec) : R := total (map (fun g => dot g b ^ 2) gs).           (* along the unit vector b *)
Definition leading d (gs : list vec) (b : vec) : Prop := length b = d /\ norm b = 1 /\
  forall u, length u = d -> norm u = 1 -> energy gs u <= energy gs b.
Definition residual (p : law vec) (b : vec) : R := E p (fun v => square v - dot v b ^ 2).            (* E|xi - Pi(xi)|^2 *)
Fixpoint draws (p : law vec) (m : nat) : law (list vec) :=                                        (* m independent draws *)
  match m with O => [(1, [])] | S m' => flat_map (fun a => map (fun s => (fst a * fst s, snd a :: snd s)) (draws p m')) p end.
Definition mean_residual (p : law vec) (top : list vec -> vec) (m : nat) : R := E (draws p m) (fun s => residual p (top s)).
(* top is a leading line of each sample, whichever is taken where there are several *)
Definition printed : Prop := forall d p T top, (2 <= d)%nat -> lawful p -> in_space d p -> Forall (fun a => square (snd a) < T) p ->
  (forall s, s <> [] -> (forall v, In v s -> In v (map snd p)) -> leading d s (top s)) ->
  forall m m', (0 < m < m')%nat -> mean_residual p top m' <= mean_residual p top m.

(* e_1 with chance 9/10, sqrt 8 e_2 with 1/10: from m = 1 to 2 the mean residual rises from 81/100 to 819/1000 *)
Definition s8 : R := sqrt 8.
Definition two : law vec := [(9 / 10, [1; 0]); (1 / 10, [0; s8])].
Lemma s8_s8 : s8 * s8 = 8. Proof. apply sqrt_sqrt. lra. Qed.
Lemma residual_of a b : residual two [a; b] = 9 / 10 * (1 - a ^ 2) + 8 / 10 * (1 - b ^ 2).
Proof.
  assert (e : residual two [a; b] = 9 / 10 * (1 - a ^ 2) + 1 / 10 * (s8 * s8 * (1 - b ^ 2))) by (unfold residual, two, E, square, dot; simpl; ring).
  rewrite e, s8_s8. field.
Qed.
Lemma unit_square a b : norm [a; b] = 1 -> a ^ 2 + b ^ 2 = 1.
Proof. intro n. pose proof (norm_norm [a; b]) as q. rewrite n in q. unfold square, dot in q. simpl in q. simpl. lra. Qed.
(* in samples of the two vectors, energies add up over the axes; the axis of more energy leads *)
Lemma energy_two s : (forall v, In v s -> In v (map snd two)) -> forall u v, energy s [u; v] = energy s [1; 0] * u ^ 2 + energy s [0; 1] * v ^ 2.
Proof.
  intros h u v. induction s as [|g s IH]; [unfold energy; simpl; ring|].
  assert (I : energy s [u; v] = energy s [1; 0] * u ^ 2 + energy s [0; 1] * v ^ 2) by (apply IH; intros w i; apply h; right; exact i).
  destruct (h g (or_introl eq_refl)) as [<-|[<-|[]]]; unfold energy in *; cbn [map total fold_right snd] in *; unfold total in *; rewrite I; unfold dot; cbn [zip total fold_right]; ring.
Qed.
Definition axis (s : list vec) : vec := if Rle_dec (energy s [0; 1]) (energy s [1; 0]) then [1; 0] else [0; 1].
Lemma axis_leads s : (forall v, In v s -> In v (map snd two)) -> leading 2 s (axis s).
Proof.
  intro h. pose proof (energy_two s h) as e. unfold axis. destruct (Rle_dec (energy s [0; 1]) (energy s [1; 0])) as [le|gt].
  - split; [reflexivity|]. split; [norm_of|]. intros w l n. destruct w as [|u [|v [|]]]; try discriminate. pose proof (unit_square u v n) as one. rewrite e.
    assert (0 <= v ^ 2) by nra. replace (u ^ 2) with (1 - v ^ 2) by lra. nra.
  - split; [reflexivity|]. split; [norm_of|]. intros w l n. destruct w as [|u [|v [|]]]; try discriminate. pose proof (unit_square u v n) as one. rewrite e.
    assert (0 <= u ^ 2) by nra. replace (v ^ 2) with (1 - u ^ 2) by lra. nra.
Qed.
Lemma residual_first s x y : energy s [1; 0] = x -> energy s [0; 1] = y -> y < x -> residual two (axis s) = 8 / 10.
Proof. intros <- <- lt. unfold axis. destruct (Rle_dec _ _) as [_|no]; [rewrite residual_of; field | lra]. Qed.
Lemma residual_second s x y : energy s [1; 0] = x -> energy s [0; 1] = y -> x < y -> residual two (axis s) = 9 / 10.
Proof. intros <- <- lt. unfold axis. destruct (Rle_dec _ _) as [no|_]; [lra | rewrite residual_of; field]. Qed.
Ltac energies := pose proof s8_s8 as q; unfold energy, dot; cbn [map total fold_right zip]; nra.
Lemma one_anchor : mean_residual two axis 1 = 81 / 100.
Proof.
  unfold mean_residual, draws, E. cbn [two flat_map map app fst snd total fold_right].
  rewrite (residual_first [[1; 0]] 1 0) by (try lra; energies). rewrite (residual_second [[0; s8]] 0 8) by (try lra; energies). lra.
Qed.
Lemma two_anchors : mean_residual two axis 2 = 819 / 1000.
Proof.
  unfold mean_residual, draws, E. cbn [two flat_map map app fst snd total fold_right].
  rewrite (residual_first [[1; 0]; [1; 0]] 2 0) by (try lra; energies). rewrite (residual_second [[1; 0]; [0; s8]] 1 8) by (try lra; energies).
  rewrite (residual_second [[0; s8]; [1; 0]] 1 8) by (try lra; energies). rewrite (residual_second [[0; s8]; [0; s8]] 0 16) by (try lra; energies). lra.
Qed.
Theorem printed_is_false : ~ printed.
Proof.
  intro claim. specialize (claim 2%nat two 9 axis (Nat.le_refl _) ltac:(unfold two; lawful_by) ltac:(repeat constructor)).
  assert (h : mean_residual two axis 2 <= mean_residual two axis 1).
  { apply claim; [|intros s _; apply axis_leads | lia]. pose proof s8_s8 as q. repeat constructor; unfold square, dot; simpl; lra. }
  rewrite one_anchor, two_anchors in h. lra.
Qed.
End lem3_2_text.

(* gep.lower_variance: Yu, Zhang, Chen, Liu, Do not let privacy overbill utility: gradient embedding perturbation for private learning (GEP), ICLR 2021: section 1, second contribution.
   "we show that GEP returns an unbiased estimator of target private gradient with much lower perturbation variance than original gradient perturbation."
   Stated is "lower", for a residual clip below the gradients' own. Doubt: the paper argues for small residuals; how small, `correction` says. *)
Module lower_variance.
(* Noise energies at the same privacy: plain perturbation has p S^2 sigma^2. GEP's embedding (k entries, clip S) and residual (p entries, clip S2) each have
   sqrt 2 times the noise multiplier, so that the pair costs what one release of multiplier sigma costs. *)
Definition plain (p S sigma : R) : R := p * (S * sigma) ^ 2.
Definition embedded (k p S S2 sigma : R) : R := k * (S * (sqrt 2 * sigma)) ^ 2 + p * (S2 * (sqrt 2 * sigma)) ^ 2.
Definition printed : Prop := forall k p S S2 sigma, 1 <= k < p -> 0 < S2 < S -> 0 < sigma ->
  embedded k p S S2 sigma < plain p S sigma.
Definition correction : Prop := forall k p S S2 sigma, 1 <= k < p -> 0 < S -> 0 < S2 -> 0 < sigma ->
  (embedded k p S S2 sigma < plain p S sigma <-> k / p + (S2 / S) ^ 2 < 1 / 2).

Lemma two : sqrt 2 * sqrt 2 = 2. Proof. apply sqrt_sqrt. lra. Qed.
Lemma form k p S S2 sigma : 0 < p -> 0 < S -> embedded k p S S2 sigma = 2 * (k / p + (S2 / S) ^ 2) * plain p S sigma.
Proof.
  intros. unfold embedded, plain. replace ((S * (sqrt 2 * sigma)) ^ 2) with (S ^ 2 * (sqrt 2 * sqrt 2) * sigma ^ 2) by ring.
  replace ((S2 * (sqrt 2 * sigma)) ^ 2) with (S2 ^ 2 * (sqrt 2 * sqrt 2) * sigma ^ 2) by ring. rewrite two. field. lra.
Qed.
Theorem correction_holds : correction.
Proof.
  intros k p S S2 sigma [k1 kp] S0 S20 s0. rewrite form by lra. assert (P : 0 < plain p S sigma).
  { unfold plain. assert (0 < S * sigma) by nra. apply Rmult_lt_0_compat; [lra|]. simpl. nra. }
  set (a := k / p + (S2 / S) ^ 2). split; intro h; [|nra].
  apply (Rmult_lt_reg_r (plain p S sigma)); [exact P|]. lra.
Qed.
(* k = 1, p = 100, S = 10, S_2 = 9: 2 (1/100 + 81/100) = 41/25 times the variance *)
Theorem printed_is_false : ~ printed.
Proof.
  intro claim. assert (h : 1 / 100 + (9 / 10) ^ 2 < 1 / 2) by (apply (correction_holds 1 100 10 9 1); try lra; apply claim; lra). simpl in h. lra.
Qed.
End lower_variance.

(* gep.random_labels: Yu, Zhang, Chen, Liu, Do not let privacy overbill utility: gradient embedding perturbation for private learning (GEP), ICLR 2021: section 3.1.
   "For the least squares regression problem the individual gradient is aligned with the feature vector while the label only scales the length but does not change the direction",
   "To understand why random label works, a quick example is that": randomly labelled auxiliary data are sufficient for finding the anchor subspace.
   Doubt: the paper offers it as a quick example; "sufficient" is read, for k = 1 and the same features, as leaving no more of the true gradients than their own best line does. *)
Module random_labels.
(* gradients e x of the features x with errors e under the true labels, e' under random ones; k = 1 *)
Definition gradients (es : vec) (xs : list vec) : list vec := map (fun a => scale (fst a) (snd a)) (combine es xs).
Definition energy (gs : list vec) (b : vec) : R := total (map (fun g => dot g b ^ 2) gs).           (* along the unit vector b *)
Definition left_over (gs : list vec) (b : vec) : R := total (map square gs) - energy gs b.          (* residual energy off its line *)
Definition leading d (gs : list vec) (b : vec) : Prop := length b = d /\ norm b = 1 /\
  forall u, length u = d -> norm u = 1 -> energy gs u <= energy gs b.
(* the line that the random labels give leaves no more of the true gradients than their own best one *)
Definition printed : Prop := forall d xs es es' b b', Forall (fun x => length x = d) xs -> length es = length xs -> length es' = length xs ->
  Forall (fun a => a <> 0) es -> Forall (fun a => a <> 0) es' ->
  leading d (gradients es xs) b -> leading d (gradients es' xs) b' ->
  left_over (gradients es xs) b' <= left_over (gradients es xs) b.
(* with errors of comparable size they leave comparable energy: what is left of the true gradients off any line is at most c times what is left of the others *)
Definition correction : Prop := forall d c xs es es' b, Forall (fun x => length x = d) xs -> length es = length xs -> length es' = length xs ->
  Forall (fun a => fst a ^ 2 <= c * snd a ^ 2) (combine es es') -> length b = d -> norm b = 1 ->
  left_over (gradients es xs) b <= c * left_over (gradients es' xs) b.

Lemma unit_energy a b u v : norm [u; v] = 1 -> energy [[a; 0]; [0; b]] [u; v] = a ^ 2 * u ^ 2 + b ^ 2 * v ^ 2 /\ u ^ 2 + v ^ 2 = 1.
Proof.
  intro n. split; [unfold energy, dot; simpl; ring|]. pose proof (norm_norm [u; v]) as q. rewrite n in q. unfold square, dot in q. simpl in q. simpl. lra.
Qed.
(* features e_1, e_2, errors (1, 10) under true and (10, 1) under random labels: the line misses 100 of 101 *)
Theorem printed_is_false : ~ printed.
Proof.
  intro claim. assert (n1 : norm [1; 0] = 1) by norm_of. assert (n2 : norm [0; 1] = 1) by norm_of.
  assert (g1 : gradients [1; 10] [[1; 0]; [0; 1]] = [[1; 0]; [0; 10]]) by (unfold gradients, scale; cbn [combine map fst snd]; repeat (apply f_equal2; [repeat (apply f_equal2; [lra|]); reflexivity|]); reflexivity).
  assert (g2 : gradients [10; 1] [[1; 0]; [0; 1]] = [[10; 0]; [0; 1]]) by (unfold gradients, scale; cbn [combine map fst snd]; repeat (apply f_equal2; [repeat (apply f_equal2; [lra|]); reflexivity|]); reflexivity).
  specialize (claim 2%nat [[1; 0]; [0; 1]] [1; 10] [10; 1] [0; 1] [1; 0]). rewrite g1, g2 in claim.
  assert (h : left_over [[1; 0]; [0; 10]] [1; 0] <= left_over [[1; 0]; [0; 10]] [0; 1]).
  { apply claim.
    - repeat constructor.
    - reflexivity.
    - reflexivity.
    - repeat constructor; lra.
    - repeat constructor; lra.
    - split; [reflexivity|]. split; [exact n2|]. intros w l n. destruct w as [|u [|v [|]]]; try discriminate.
      destruct (unit_energy 1 10 u v n) as [q s]. rewrite q. destruct (unit_energy 1 10 0 1 n2) as [q' _]. rewrite q'. nra.
    - split; [reflexivity|]. split; [exact n1|]. intros w l n. destruct w as [|u [|v [|]]]; try discriminate.
      destruct (unit_energy 10 1 u v n) as [q s]. rewrite q. destruct (unit_energy 10 1 1 0 n1) as [q' _]. rewrite q'. nra. }
  unfold left_over, energy, square, dot in h. simpl in h. lra.
Qed.
Theorem correction_holds : correction.
Proof.
  intros d c xs es es' b F. revert es es'. induction F as [|x xs lx F IH]; intros [|a es] [|a' es'] l l' R lb nb; try discriminate.
  - unfold left_over, energy, gradients. simpl. lra.
  - injection l as l. injection l' as l'. pose proof (Forall_inv R) as r. pose proof (Forall_inv_tail R) as R'. simpl in r. specialize (IH es es' l l' R' lb nb).
    unfold left_over, energy, gradients in *. cbn [combine map total fold_right fst snd].
    rewrite !square_scale, !dot_scale. unfold total in *.
    assert (0 <= square x - dot x b ^ 2).
    { pose proof (cauchy_schwarz_square x b) as cs. rewrite <- (norm_norm b), nb in cs. simpl. lra. }
    assert (a ^ 2 * (square x - dot x b ^ 2) <= c * a' ^ 2 * (square x - dot x b ^ 2)) by (apply Rmult_le_compat_r; assumption). nra.
Qed.
End random_labels.

(* gep.residual_scale: Yu, Zhang, Chen, Liu, Do not let privacy overbill utility: gradient embedding perturbation for private learning (GEP), ICLR 2021: Theorem 3.3 and its proof (eq. 8).
   "r_t = max_i |(R_t)_{i,:}| is the sensitivity of residual gradient at step t." *)
Module residual_scale.
(* residuals are what a projection on the line of the unit vector b leaves (k = 1); neighbours differ by one record added *)
Definition residual (b g : vec) : vec := sub g (scale (dot g b) b).
Definition largest (b : vec) (gs : list vec) : R := fold_right Rmax 0 (map (fun g => norm (residual b g)) gs).
Definition released d (b : vec) (gs : list vec) : vec := sum d (map (residual b) gs).
Definition data d (gs : list vec) : Prop := gs <> [] /\ Forall (fun g => length g = d /\ norm g <= 1) gs.   (* 1-Lipschitz losses *)
(* for all data: no neighbour is further away *)
Definition printed : Prop := forall d b g gs, length b = d -> norm b = 1 -> data d gs -> data d (g :: gs) ->
  norm (sub (released d b (g :: gs)) (released d b gs)) <= largest b gs.
(* a public bound on all residuals is one *)
Definition correction : Prop := forall d b rho g gs, length b = d -> data d gs -> data d (g :: gs) ->
  norm (residual b g) <= rho -> norm (sub (released d b (g :: gs)) (released d b gs)) <= rho.

(* three samples with the gradient e_1 at b = e_1 have no residual; the fourth, e_2, moves the sum by 1 *)
Theorem printed_is_false : ~ printed.
Proof.
  intro claim. assert (n1 : norm [1; 0] = 1) by norm_of. assert (n2 : norm [0; 1] = 1) by norm_of.
  specialize (claim 2%nat [1; 0] [0; 1] [[1; 0]; [1; 0]; [1; 0]] eq_refl n1).
  assert (r1 : residual [1; 0] [1; 0] = [0; 0]) by (unfold residual, sub, scale, dot; simpl; f_equal; [lra | f_equal; lra]).
  assert (r2 : residual [1; 0] [0; 1] = [0; 1]) by (unfold residual, sub, scale, dot; simpl; f_equal; [lra | f_equal; lra]).
  assert (n0 : norm [0; 0] = 0) by norm_of.
  unfold largest, released in claim. cbn [map fold_right] in claim. rewrite r1, r2, n0 in claim.
  assert (z : Rmax 0 0 = 0) by (apply Rmax_left; lra). rewrite !z in claim.
  assert (h : norm (sub (sum 2 [[0; 1]; [0; 0]; [0; 0]; [0; 0]]) (sum 2 [[0; 0]; [0; 0]; [0; 0]])) <= 0).
  { apply claim; (split; [discriminate|]); repeat constructor; lra. }
  replace (norm _) with 1 in h; [lra|]. symmetry. cbv [sum fold_right add zip zero repeat sub]. norm_of.
Qed.
Theorem correction_holds : correction.
Proof.
  intros d b rho g gs eb D D' le.
  assert (len : forall x, length x = d -> length (residual b x) = d) by (intros; unfold residual; rewrite length_sub; rewrite ?length_scale; congruence).
  unfold released. cbn [map]. unfold sum. cbn [fold_right]. rewrite sub_same; [exact le|].
  destruct D as [_ F]. destruct D' as [_ F']. rewrite len by apply (Forall_inv F'). symmetry. apply (length_sum d).
  apply Forall_map. eapply Forall_impl; [|exact F]. simpl; intros x [e _]. apply len, e.
Qed.
End residual_scale.
