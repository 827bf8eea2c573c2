From kernel Require Import definitions lemmas.
From kernel Require lf.

(* rs.alg1.divisor: Zhu and Blaschko, Improving Differentially Private SGD via Randomly Sparsified Gradients (RS), the version with Lemma 3.3: Algorithm 1, lines 3 to 6.
   The sum over the drawn batch and its noise N(0, C^2 sigma^2 I) are divided by the size b of that batch, and accounted for as a Gaussian mechanism
   of noise multiplier sigma: one example may move what is released by C / b, b the size by which the noise is divided.
   Doubt: that b is the size of the drawn batch is how the algorithm is printed; the released code divides by a fixed one. *)
Module alg1_divisor.
Definition clipped (C : R) (m : list bool) (gs : list vec) : list vec := map (fun g => clip C (mask m g)) gs.
Definition released (d : nat) (C : R) (m : list bool) (gs : list vec) : vec := average d (clipped C m gs).
Definition batch (d : nat) (gs : list vec) : Prop := gs <> [] /\ Forall (fun g => length g = d) gs.
Definition moved d C m (g : vec) gs : R := norm (sub (released d C m (g :: gs)) (released d C m gs)).
(* adding the example g moves the average by at most C / (b + 1), the sensitivity that the account takes; or by C / b, if it takes the other size *)
Definition printed : Prop := forall d C m g gs, 0 < C -> length m = d -> length g = d -> batch d gs ->
  moved d C m g gs <= C / INR (length (g :: gs)) \/ moved d C m g gs <= C / INR (length gs).
Definition correction : Prop := forall d C m g gs, 0 < C -> length m = d -> length g = d -> batch d gs ->
  moved d C m g gs <= 2 * C / INR (length (g :: gs)).

(* C = 1: the gradients C, C and, added, -C: the average moves by 2/3 *)
Lemma numbers : moved 1 1 [true] [-1] [[1]; [1]] = 2 / 3.
Proof.
  assert (n1 : norm [1] = 1) by norm_of. assert (n1' : norm [-1] = 1) by norm_of.
  unfold moved, released, clipped, average. cbn [map mask].
  rewrite !(clip_short 1 [1]), !(clip_short 1 [-1]) by lra.
  cbv [sub zip add scale map sum fold_right zero repeat length INR].
  match goal with |- norm [?a] = _ => replace a with (- (2 / 3)) by (simpl; field) end.
  norm_of.
Qed.
Theorem printed_is_false : ~ printed.
Proof.
  intro claim. specialize (claim 1%nat 1 [true] [-1] [[1]; [1]]).
  destruct claim as [h|h]; try lra; try reflexivity; try (split; [discriminate | repeat constructor]);
    rewrite numbers in h; simpl in h; lra.
Qed.
Lemma clipped_fine d C m gs : 0 <= C -> length m = d -> Forall (fun g => length g = d) gs ->
  Forall (fun v => length v = d /\ norm v <= C) (clipped C m gs).
Proof.
  intros C0 e F. unfold clipped. apply Forall_map. eapply Forall_impl; [|exact F]. simpl; intros g l.
  rewrite length_clip, length_mask by congruence. split; [exact l | apply norm_clip_le, C0].
Qed.
Lemma sub_scales_one n u S : n <> 0 -> n + 1 <> 0 -> length u = length S ->
  sub (scale (/ (n + 1)) (add u S)) (scale (/ n) S) = scale (/ (n + 1)) (sub u (scale (/ n) S)).
Proof.
  intros a b. revert S; induction u as [|x u IH]; intros [|y S] e; try discriminate; [reflexivity|].
  unfold sub, scale, add in *; simpl in *. rewrite IH by lia. f_equal. field; split; assumption.
Qed.
Theorem correction_holds : correction.
Proof.
  intros d C m g gs C0 em eg [ne F]. unfold moved, released, average.
  pose proof (clipped_fine d C m gs ltac:(lra) em F) as Fc. pose proof (clipped_fine d C m [g] ltac:(lra) em ltac:(repeat constructor; exact eg)) as Fg.
  apply Forall_inv in Fg. destruct Fg as [lg ng].
  assert (Fl : Forall (fun v => length v = d) (clipped C m gs)) by (eapply Forall_impl; [|exact Fc]; simpl; tauto).
  assert (n0 : 0 < INR (length (clipped C m gs))).
  { unfold clipped. rewrite map_length. destruct gs; [congruence|]. apply lt_0_INR; simpl; lia. }
  set (n := INR (length (clipped C m gs))) in *.
  assert (e1 : INR (length (clipped C m (g :: gs))) = n + 1) by (unfold n; rewrite <- S_INR; reflexivity).
  assert (e2 : INR (length (g :: gs)) = n + 1).
  { unfold n, clipped. rewrite map_length, <- S_INR. reflexivity. }
  rewrite e1, e2. change (clipped C m (g :: gs)) with (clip C (mask m g) :: clipped C m gs).
  change (sum d (clip C (mask m g) :: clipped C m gs)) with (add (clip C (mask m g)) (sum d (clipped C m gs))).
  rewrite sub_scales_one by (try lra; rewrite length_sum by exact Fl; exact lg).
  rewrite norm_scale, Rabs_pos_eq by (apply Rlt_le, Rinv_0_lt_compat; lra).
  assert (norm (scale (/ n) (sum d (clipped C m gs))) <= C).
  { rewrite norm_scale, Rabs_pos_eq by (apply Rlt_le, Rinv_0_lt_compat; lra).
    pose proof (norm_sum d _ C Fc) as h. fold n in h. apply (Rmult_le_reg_l n); [lra|]. rewrite <- Rmult_assoc, Rinv_r by lra. lra. }
  pose proof (norm_sub (clip C (mask m g)) (scale (/ n) (sum d (clipped C m gs)))) as t.
  rewrite length_scale, length_sum in t by exact Fl. specialize (t lg).
  unfold Rdiv. rewrite (Rmult_comm (2 * C)). apply Rmult_le_compat_l; [apply Rlt_le, Rinv_0_lt_compat; lra | lra].
Qed.
End alg1_divisor.

(* rs.alg4: Zhu and Blaschko, Improving Differentially Private SGD via Randomly Sparsified Gradients (RS), the version with Lemma 3.3: Appendix I, Algorithm 4, line 9 (v_{t+1} = mu v_t + g_t, w_{t+1} = w_t - gamma v_{t+1}).
   "As DP is robust to post-processing, such ranked sparsification does not consume the privacy budget." Line 8 makes the noisy gradient; line 9 as printed takes the other one. *)
Module alg4.
(* one step on all data from w with velocity 0 and the mask m; n is the noise of line 8, which line 9 does not use *)
Definition step (d : nat) (B C gamma : R) (m : list bool) (grads : list vec) (w n : vec) : vec :=
  sub w (scale gamma (scale (/ B) (sum d (map (fun g => clip C (mask m g)) grads)))).
(* (eps, delta)-DP, for one example added or removed: for every set s of outcomes and any expectation e over the noise.
   An example x has the gradient grad x w. *)
Definition indicator (s : vec -> bool) (v : vec) : R := if s v then 1 else 0.
Definition private {X O} (e : expectation O) (n : O -> vec) d B C gamma m (grad : X -> vec -> vec) (w : vec) (eps delta : R) : Prop :=
  forall x xs s, let P data := ex e (fun o => indicator s (step d B C gamma m (map (fun x => grad x w) data) w (n o))) in
  P (x :: xs) <= exp eps * P xs + delta /\ P xs <= exp eps * P (x :: xs) + delta.
(* whatever the noise is, the step is (eps, delta)-private for some eps and some delta < 1 *)
Definition printed : Prop := exists (O : Type) (e : expectation O) (n : O -> vec),
  forall d B C gamma m w, 0 < B -> 0 < C -> 0 < gamma -> length m = d -> length w = d ->
  forall (X : Type) (grad : X -> vec -> vec), (forall x w, length w = d -> length (grad x w) = d) ->
  exists eps delta, delta < 1 /\ private e n d B C gamma m grad w eps delta.

(* line 9 with the gradient of line 8: what is (eps, delta)-private is still so after any function of it and of outcomes that do not depend on the data, as the
   step is, and the ranking of the next mask. (Composition over the steps is not stated here.) *)
Definition release {X O} (d : nat) (B C : R) (m : list bool) (grad : X -> vec -> vec) (w : vec) (n : O -> vec) (data : list X) (o : O) : vec :=
  scale (/ B) (add (sum d (map (fun x => clip C (mask m (grad x w))) data)) (mask m (n o))).
Definition private_of {X O Z} (e : expectation O) (out : list X -> O -> Z) (eps delta : R) : Prop :=
  forall x xs (s : Z -> bool), let P data := ex e (fun o => if s (out data o) then 1 else 0) in
  P (x :: xs) <= exp eps * P xs + delta /\ P xs <= exp eps * P (x :: xs) + delta.
Definition correction : Prop := forall (X O : Type) (e : expectation O) (n : O -> vec) d B C m (grad : X -> vec -> vec) w eps delta,
  private_of e (release d B C m grad w n) eps delta ->
  (forall gamma, private_of e (fun data o => sub w (scale gamma (release d B C m grad w n data o))) eps delta) /\
  forall (Y Z : Type) (y : Y) (f : Y -> vec -> Z), private_of e (fun data o => f y (release d B C m grad w n data o)) eps delta.

(* d = 1, C = 4, from 0 on the sum of (w - x)^2 / 2, B = 2, gamma = 1/10, data 1 and -1/2: the step leads to 1/40, with a third example 3 to 7/40 *)
Definition gradient (x : R) (w : vec) : vec := map (fun a => a - x) w.
Lemma short v : norm v <= 4 -> clip 4 v = v. Proof. apply clip_short. Qed.
Lemma small a : -4 <= a <= 4 -> clip 4 [a] = [a].
Proof. intro. apply short, norm_le; unfold square, dot; simpl; nra. Qed.
Lemma two n : step 1 2 4 (1 / 10) [true] [gradient 1 [0]; gradient (- (1 / 2)) [0]] [0] n = [1 / 40].
Proof. unfold step, gradient. cbn [map mask]. rewrite !small by lra. cbv [sum map fold_right add zip scale zero repeat sub]. f_equal. field. Qed.
Lemma three n : step 1 2 4 (1 / 10) [true] [gradient 3 [0]; gradient 1 [0]; gradient (- (1 / 2)) [0]] [0] n = [7 / 40].
Proof. unfold step, gradient. cbn [map mask]. rewrite !small by lra. cbv [sum map fold_right add zip scale zero repeat sub]. f_equal. field. Qed.
Theorem printed_is_false : ~ printed.
Proof.
  intros (O & e & n & claim).
  destruct (claim 1%nat 2 4 (1 / 10) [true] [0] ltac:(lra) ltac:(lra) ltac:(lra) eq_refl eq_refl R gradient) as (eps & delta & d1 & h).
  { intros x w l. unfold gradient. rewrite map_length. exact l. }
  set (s := fun v : vec => match v with a :: _ => if Req_EM_T a (7 / 40) then true else false | [] => false end).
  destruct (h 3 [1; - (1 / 2)] s) as [a _]. cbn [map] in a. rewrite (ex_ext e _ (fun _ => 1)), ex_constant in a.
  - rewrite (ex_ext e _ (fun _ => 0)), ex_constant in a; [lra|]. intro o. rewrite two. unfold indicator, s.
    destruct (Req_EM_T (1 / 40) (7 / 40)); lra.
  - intro o. rewrite three. unfold indicator, s. destruct (Req_EM_T (7 / 40) (7 / 40)); [reflexivity | congruence].
Qed.
Theorem correction_holds : correction.
Proof.
  intros X O e n d B C m grad w eps delta p. split.
  - intros gamma x xs s. apply (p x xs (fun g => s (sub w (scale gamma g)))).
  - intros Y Z y f x xs s. apply (p x xs (fun g => s (f y g))).
Qed.
End alg4.

(* rs.appG: Zhu and Blaschko, Improving Differentially Private SGD via Randomly Sparsified Gradients (RS), the version with Lemma 3.3: Appendix G, eq. 113 to 116.
   Supposing kappa = sqrt(1 - r), the bound (113) is written U(r) = Delta_C / sqrt(1 - r) + sqrt(1 - r) Delta_sigma (114), and r* = 1 - Delta_C / Delta_sigma
   is best (116), or 0 where Delta_C > Delta_sigma. *)
Module appG.
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
End appG.

(* rs.appH: Zhu and Blaschko, Improving Differentially Private SGD via Randomly Sparsified Gradients (RS), the version with Lemma 3.3: Appendix H, eq. 117 to 123.
   With Adam's v_{t+1} = mu v_t + (1 - mu) g~_t the noise of the velocity is (1 - mu)(1 + mu + ... + mu^t) N(0, C^2 sigma^2 I), about N(0, C^2 sigma^2 I),
   so that C and mu are decoupled in terms of the noise amount. *)
Module appH.
(* one coordinate of the velocity's noise after t steps, s = C sigma: n_0, n_1, ... are the steps' standard normal draws *)
Fixpoint velocity {O} (mu a s : R) (n : nat -> O -> R) (t : nat) (o : O) : R :=
  match t with O => 0 | S t' => mu * velocity mu a s n t' o + a * (s * n t' o) end.
Fixpoint weights (mu : R) (t : nat) : R := match t with O => 0 | S t' => 1 + mu * weights mu t' end.   (* 1 + mu + ... + mu^(t-1) *)
Definition variance {O} (e : expectation O) (f : O -> R) : R := ex e (fun o => f o * f o).    (* of a variable of mean 0 *)
(* for independent standard normal n, so for some noise with their first two moments *)
Definition printed : Prop := exists (O : Type) (e : expectation O) (n : nat -> O -> R), unit_noise e n /\
  forall mu s t, 0 < mu < 1 -> 0 < s ->
  variance e (velocity mu (1 - mu) s n t) = ((1 - mu) * weights mu t * s) ^ 2.
Definition correction : Prop := forall (O : Type) (e : expectation O) (n : nat -> O -> R), unit_noise e n ->
  forall mu s t, 0 < mu < 1 -> 0 < s ->
  variance e (velocity mu (1 - mu) s n t) = s ^ 2 * ((1 - mu) / (1 + mu)) * (1 - mu ^ (2 * t)).

Section Noise.
Variables (O : Type) (e : expectation O) (n : nat -> O -> R).
Hypothesis (noise : unit_noise e n).
Lemma later mu a s t : forall j, (t <= j)%nat ->
  has e (fun o => velocity mu a s n t o * n j o) /\ ex e (fun o => velocity mu a s n t o * n j o) = 0.
Proof.
  destruct noise as (h1 & m1 & h2 & m2). induction t as [|t IH]; intros j l; cbn [velocity].
  - split; [apply (has_ext e (fun _ => 0)); [intro; ring | apply has_constant]|].
    rewrite (ex_ext e _ (fun _ => 0)) by (intro; ring). apply ex_constant.
  - destruct (IH j ltac:(lia)) as [a1 a2].
    assert (q : forall o, mu * (velocity mu a s n t o * n j o) + a * s * (n t o * n j o)
      = (mu * velocity mu a s n t o + a * (s * n t o)) * n j o) by (intro; ring).
    split.
    + apply (has_ext e _ _ q). apply has_linear; [exact a1 | apply h2].
    + rewrite <- (ex_ext e _ _ q). rewrite ex_linear by (try exact a1; apply h2). rewrite a2, m2.
      replace (t =? j)%nat with false by (symmetry; apply Nat.eqb_neq; lia). ring.
Qed.
Lemma squares mu a s t :
  has e (fun o => velocity mu a s n t o * velocity mu a s n t o) /\
  (1 - mu ^ 2) * ex e (fun o => velocity mu a s n t o * velocity mu a s n t o) = a ^ 2 * s ^ 2 * (1 - mu ^ (2 * t)).
Proof.
  induction t as [|t [IH1 IH2]].
  - cbn [velocity]. split; [apply (has_ext e (fun _ => 0)); [intro; ring | apply has_constant]|].
    rewrite (ex_ext e _ (fun _ => 0)) by (intro; ring). rewrite ex_constant. simpl. ring.
  - destruct (later mu a s t t ltac:(lia)) as [a1 a2]. destruct noise as (h1 & m1 & h2 & m2). cbn [velocity].
    set (v := velocity mu a s n t) in *.
    assert (q : forall o, 1 * (mu ^ 2 * (v o * v o) + 2 * mu * (a * s) * (v o * n t o)) + a ^ 2 * s ^ 2 * (n t o * n t o)
      = (mu * v o + a * (s * n t o)) * (mu * v o + a * (s * n t o))) by (intro; ring).
    assert (h3 : has e (fun o => mu ^ 2 * (v o * v o) + 2 * mu * (a * s) * (v o * n t o))) by (apply has_linear; assumption).
    split.
    + apply (has_ext e _ _ q). apply has_linear; [exact h3 | apply h2].
    + rewrite <- (ex_ext e _ _ q). rewrite ex_linear by (try exact h3; apply h2).
      rewrite ex_linear by assumption. rewrite a2, m2, Nat.eqb_refl.
      replace (2 * S t)%nat with (S (S (2 * t))) by lia. cbn [pow].
      replace ((1 - mu * (mu * 1)) * (1 * (mu * (mu * 1) * ex e (fun o => v o * v o) + 2 * mu * (a * s) * 0) + a * (a * 1) * (s * (s * 1)) * 1))
        with (mu ^ 2 * ((1 - mu ^ 2) * ex e (fun o => v o * v o)) + (1 - mu ^ 2) * a ^ 2 * s ^ 2) by ring.
      rewrite IH2. ring.
Qed.
End Noise.

Theorem correction_holds : correction.
Proof.
  intros O e n noise mu s t [a b] s0. unfold variance. destruct (squares O e n noise mu (1 - mu) s t) as [_ h].
  assert (0 < 1 - mu ^ 2) by nra. apply (Rmult_eq_reg_l (1 - mu ^ 2)); [|lra]. rewrite h. field; lra.
Qed.
(* mu = 1/2, two steps: the variance is 5/16, printed 9/16 *)
Theorem printed_is_false : ~ printed.
Proof.
  intros (O & e & n & noise & claim). specialize (claim (1 / 2) 1 2%nat ltac:(lra) ltac:(lra)).
  rewrite (correction_holds O e n noise (1 / 2) 1 2%nat ltac:(lra) ltac:(lra)) in claim. simpl in claim. lra.
Qed.
End appH.

(* rs.as_tight: Zhu and Blaschko, Improving Differentially Private SGD via Randomly Sparsified Gradients (RS), the version with Lemma 3.3: section 3.3, text after eq. 15.
   At r = 0 the bound of Theorem 3.5 "recovers the convergence bound of vanilla DP-SGD [...], implying that our convergence bound over RS is as tight as before".
   That it recovers the bound at r = 0 is right. Refuted is the reading that the bound is as tight for r > 0 as for r = 0. *)
Module as_tight.
(* Both bounds put C^2 for the second moment of a clipped gradient. As tight as before: where that is exact without a mask, it is exact with one. *)
Definition reading : Prop := forall d k C (p : law vec), (0 < k <= d)%nat -> 0 < C -> lawful p -> in_space d p ->
  E p (fun g => square (clip C g)) = C ^ 2 ->
  avg (masks d k) (fun m => E p (fun g => square (clip C (mask m g)))) = C ^ 2.
Definition correction : Prop := forall d k C (p : law vec), (0 < k <= d)%nat -> 0 < C -> lawful p -> in_space d p ->
  E p (fun g => square (clip C g)) = C ^ 2 ->
  share d k * C ^ 2 <= avg (masks d k) (fun m => E p (fun g => square (clip C (mask m g)))) <= C ^ 2.

(* four equal entries, one kept, C = 3, g = (3/2, 3/2, 3/2, 3/2): 9 without a mask, 9/4 with one *)
Definition even : law vec := [(1, [3 / 2; 3 / 2; 3 / 2; 3 / 2])].
Theorem reading_is_false : ~ reading.
Proof.
  intro claim. specialize (claim 4%nat 1%nat 3 even ltac:(lia) ltac:(lra) ltac:(lawful_by) ltac:(repeat constructor)).
  assert (s : forall m, In m (masks 4 1) -> E even (fun g => square (clip 3 (mask m g))) = 9 / 4).
  { intros m i. unfold E, even. cbn [map total fold_right fst snd].
    rewrite clip_short; [|eapply Rle_trans; [apply norm_mask|]; apply norm_le; unfold square, dot; simpl; lra].
    simpl in i. destruct i as [<-|[<-|[<-|[<-|[]]]]]; unfold square, dot; simpl; lra. }
  rewrite (avg_same _ _ (9 / 4)) in claim by (try discriminate; exact s).
  assert (e : E even (fun g => square (clip 3 g)) = 3 ^ 2).
  { unfold E, even. cbn [map total fold_right fst snd]. rewrite clip_short; [unfold square, dot; simpl; lra|].
    apply norm_le; unfold square, dot; simpl; lra. }
  specialize (claim e). lra.
Qed.
Theorem correction_holds : correction.
Proof.
  intros d k C p [k0 kd] C0 lp F e. split.
  - rewrite <- e. rewrite <- E_scale.
    apply Rle_trans with (E p (fun g => avg (masks d k) (fun m => square (mask m (clip C g))))).
    + right. unfold E. apply total_map_ext. eapply Forall_impl; [|exact F]. simpl; intros a l.
      rewrite masked_square; [reflexivity | lia | lia | rewrite length_clip; exact l].
    + replace (avg (masks d k) (fun m => E p (fun g => square (clip C (mask m g)))))
        with (E p (fun g => avg (masks d k) (fun m => square (clip C (mask m g))))).
      * apply E_le; [apply lp|]. intro g. apply avg_le, Forall_forall. intros m _.
        rewrite <- !norm_norm. pose proof (norm_masked_clip C m g C0). pose proof (norm_nonneg (mask m (clip C g))). nra.
      * unfold E. clear e F lp. induction p as [|[q g] p IH]; simpl; [unfold avg; rewrite total_constant; unfold Rdiv; ring|].
        rewrite avg_add, avg_scale. f_equal. exact IH.
  - rewrite <- (avg_constant (masks d k) (C ^ 2)) by (apply masks_some; exact kd). apply avg_le, Forall_forall. intros m _.
    rewrite <- (E_constant p (C ^ 2) lp) at 1. apply E_le; [apply lp|]. intro g. rewrite <- norm_norm.
    pose proof (norm_clip_le C (mask m g) ltac:(lra)). pose proof (norm_nonneg (clip C (mask m g))). nra.
Qed.
End as_tight.

(* rs.cor_c11: Zhu and Blaschko, Improving Differentially Private SGD via Randomly Sparsified Gradients (RS), the version with Lemma 3.3: Corollary C.1.1 (eq. 91).
   With gamma = 1/(G sqrt T), B = sqrt T and the noise of Theorem C.1 the bound is that of eq. 91, which is right. Stated as printed is the sentence before it: "the
   following corollary proves that the upper bound of true gradient norm decreases w.r.t. iterations T". *)
Module cor_c11.
(* eq. 91 without bias; sampling rate q = B / N = sqrt T / N; u, v are the constants of Theorem C.1 (eps < v q^2 T) *)
Definition rate (N T : R) : R := sqrt T / N.
Definition Delta_eps (d C u q delta eps T : R) : R :=
  d * C ^ 2 * u ^ 2 * q ^ 2 * ln (1 / delta) / (2 * sqrt T * eps ^ 2).
Definition bound (kappa r Delta G C d u delta eps N T : R) : R :=
  1 / kappa * (Delta * G / sqrt T + C ^ 2 / (2 * sqrt T))
  + (1 - r) / kappa * Delta_eps d C u (rate N T) delta eps T.
Definition allowed (v eps N T : R) : Prop := 1 <= T /\ sqrt T <= N /\ eps < v * rate N T ^ 2 * T.
(* u and v are constants that the theorem does not give *)
Definition printed : Prop := exists u v, 0 < u /\ 0 < v /\
  forall kappa r Delta G C d delta eps N, 0 <= r < 1 -> 1 - r <= kappa <= 1 ->
  0 < Delta -> 0 < G -> 0 < C -> 1 <= d -> 0 < delta < 1 -> 0 < eps -> 1 <= N ->
  forall T T', T < T' -> allowed v eps N T -> allowed v eps N T' ->
  bound kappa r Delta G C d u delta eps N T' <= bound kappa r Delta G C d u delta eps N T.

Lemma root_20 : sqrt 400 = 20. Proof. replace 400 with (20 * 20) by ring. apply sqrt_square; lra. Qed.
Lemma root_40 : sqrt 1600 = 40. Proof. replace 1600 with (40 * 40) by ring. apply sqrt_square; lra. Qed.
(* G = C = Delta_L = 1, r = 0, N = d = 400, u^2 log(1/delta) / eps^2 = 8: 0.275 at T = 400 and 0.4375 at T = 1600 *)
Lemma values u eps : 0 < u -> 0 < eps -> let delta := exp (- (8 * eps ^ 2 / u ^ 2)) in
  bound 1 0 1 1 1 400 u delta eps 400 400 = 11 / 40 /\ bound 1 0 1 1 1 400 u delta eps 400 1600 = 7 / 16.
Proof.
  intros u0 e0 delta. assert (l : ln (1 / delta) = 8 * eps ^ 2 / u ^ 2).
  { unfold delta. replace (1 / exp (- (8 * eps ^ 2 / u ^ 2))) with (exp (8 * eps ^ 2 / u ^ 2)) by (rewrite exp_Ropp; field; apply Rgt_not_eq, exp_pos).
    apply ln_exp. }
  split; unfold bound, Delta_eps, rate; rewrite l, ?root_20, ?root_40; field; lra.
Qed.
Theorem printed_is_false : ~ printed.
Proof.
  intros (u & v & u0 & v0 & claim). set (eps := Rmin 1 (v / 2)).
  assert (e0 : 0 < eps) by (apply Rmin_glb_lt; lra). assert (ev : eps <= v / 2) by apply Rmin_r.
  destruct (values u eps u0 e0) as [a b].
  assert (0 < 8 * eps ^ 2 / u ^ 2) by (apply Rdiv_lt_0_compat; nra).
  assert (exp (- (8 * eps ^ 2 / u ^ 2)) < 1) by (rewrite <- exp_0; apply exp_increasing; lra).
  pose proof (exp_pos (- (8 * eps ^ 2 / u ^ 2))).
  assert (h : bound 1 0 1 1 1 400 u (exp (- (8 * eps ^ 2 / u ^ 2))) eps 400 1600
              <= bound 1 0 1 1 1 400 u (exp (- (8 * eps ^ 2 / u ^ 2))) eps 400 400).
  { apply claim; try lra; unfold allowed, rate; rewrite ?root_20, ?root_40; repeat split; lra. }
  rewrite a, b in h. lra.
Qed.
End cor_c11.

(* rs.epoch_mask: Zhu and Blaschko, Improving Differentially Private SGD via Randomly Sparsified Gradients (RS), the version with Lemma 3.3: section 4.2.
   "Another strength of per-epoch randomization is that for one epoch there are certainly (1 - r)d coordinates updated." Section 4 names the exception:
   "In case of non-zero momentum, coordinates that have been selected can still be updated as long as their velocity has not decayed to zero."
   Refuted is the sentence read with momentum and without that exception; without momentum it is right (`correction`, for "at most"). *)
Module epoch_mask.
(* one epoch of SGD with momentum mu and learning rate g under the mask m: the gradients gs are masked, velocity v and weights w go on *)
Fixpoint epoch (mu g : R) (m : list bool) (gs : list vec) (v w : vec) : vec * vec :=
  match gs with
  | [] => (v, w)
  | u :: gs' => let v' := add (scale mu v) (mask m u) in epoch mu g m gs' v' (sub w (scale g v'))
  end.
(* two epochs with masks m and m' from v = 0: in the second no more entries move than its mask keeps.
   ("certainly (1 - r)d" is more than that: exactly as many.) *)
Definition reading : Prop := forall d k mu g m m' gs gs' w, 0 <= mu < 1 -> 0 < g -> (0 < k < d)%nat ->
  In m (masks d k) -> In m' (masks d k) -> length w = d ->
  Forall (fun u => length u = d) gs -> Forall (fun u => length u = d) gs' ->
  let '(v1, w1) := epoch mu g m gs (zero d) w in
  let '(v2, w2) := epoch mu g m' gs' v1 w1 in
  forall js, NoDup js -> Forall (fun j => (j < d)%nat /\ entry w2 j <> entry w1 j) js -> (length js <= k)%nat.
(* without momentum an entry that the mask drops does not move *)
Definition correction : Prop := forall d g m gs v w, length m = d -> length w = d -> length v = d ->
  Forall (fun u => length u = d) gs ->
  forall j, nth j m true = false -> entry (snd (epoch 0 g m gs v w)) j = entry w j.

(* two entries, one kept, mu = 1/2, gamma = 1; one step with each mask: in the second epoch 2 entries move, not 1 *)
Theorem reading_is_false : ~ reading.
Proof.
  intro claim.
  specialize (claim 2%nat 1%nat (1 / 2) 1 [true; false] [false; true] [[1; 1]] [[1; 1]] [0; 0]
    ltac:(lra) ltac:(lra) ltac:(lia) ltac:(simpl; tauto) ltac:(simpl; tauto) eq_refl
    ltac:(repeat constructor) ltac:(repeat constructor)).
  cbv beta iota delta [epoch mask add scale zip map zero repeat sub] in claim.
  specialize (claim [0%nat; 1%nat]). enough (h : (length [0%nat; 1%nat] <= 1)%nat) by (simpl in h; lia).
  apply claim; [repeat constructor; simpl; intuition discriminate|].
  repeat constructor; unfold entry; simpl; lra.
Qed.
Lemma entry_mask j m u : nth j m true = false -> entry (mask m u) j = 0.
Proof.
  unfold entry. revert j u; induction m as [|b m IH]; intros [|j] u; simpl; intro e; try discriminate; destruct u; simpl; try reflexivity.
  - rewrite e. reflexivity.
  - apply IH, e.
Qed.
Lemma entry_add u v j : length u = length v -> entry (add u v) j = entry u j + entry v j.
Proof. unfold entry. revert v j; induction u; destruct v; simpl; intros j e; try discriminate; [destruct j; simpl; lra|].
  destruct j; [reflexivity|]. apply IHu. lia. Qed.
Lemma entry_sub u v j : length u = length v -> entry (sub u v) j = entry u j - entry v j.
Proof. unfold entry. revert v j; induction u; destruct v; simpl; intros j e; try discriminate; [destruct j; simpl; lra|].
  destruct j; [reflexivity|]. apply IHu. lia. Qed.
Lemma entry_scale c u j : entry (scale c u) j = c * entry u j.
Proof. unfold entry. revert j; induction u; intros [|j]; simpl; try lra. apply IHu. Qed.
Theorem correction_holds : correction.
Proof.
  intros d g m gs v w em ew ev F j drop. revert v w ev ew. induction F as [|u gs eu F IH]; intros v w ev ew; [reflexivity|].
  cbn [epoch]. assert (el : length (add (scale 0 v) (mask m u)) = d).
  { rewrite length_add; rewrite length_scale; [exact ev|]. rewrite length_mask; congruence. }
  rewrite IH by (try exact el; rewrite length_sub; rewrite ?length_scale; congruence).
  rewrite entry_sub, entry_scale, entry_add, entry_scale, entry_mask; [lra | exact drop | |].
  - rewrite length_scale, length_mask; congruence.
  - rewrite length_scale; congruence.
Qed.
End epoch_mask.

(* rs.eq63: Zhu and Blaschko, Improving Differentially Private SGD via Randomly Sparsified Gradients (RS), the version with Lemma 3.3: Appendix B.3, eq. 63 and the text after eq. 76.
   P(|xi_t| < 3C/4) >= sqrt(1 - r) "is a sufficient but not necessary condition, which will be definitely satisfied as the network converges, i.e. |grad w| -> 0, |xi_t| -> 0."
   In full, with xi_t -> 0, it holds: that is the first half of `correction`. Refuted is the reading that the network converges where grad w -> 0 alone.
   Doubt: whether the paper's "i.e." defines convergence, or says what convergence brings. *)
Module eq63.
(* the examples' gradients are a finite law p; where the true gradient, their mean, is 0 the deviations are the gradients themselves *)
Definition reading : Prop := forall d k C (p : law vec), (0 < k < d)%nat -> 0 < C -> lawful p -> in_space d p ->
  mean_vector d p (fun v => v) = zero d -> sqrt (share d k) <= chance p (3 * C / 4) (fun v => v).
(* the deviations of step t, in probability *)
Definition vanish (p : nat -> law vec) : Prop :=
  forall c a, 0 < c -> a < 1 -> exists t0, forall t, (t0 <= t)%nat -> a <= chance (p t) c (fun v => v).
(* as the deviations go to 0 the condition is met from some step on; at one step a small second moment is enough *)
Definition correction : Prop :=
  (forall d k C (p : nat -> law vec), (0 < k < d)%nat -> 0 < C -> vanish p ->
  exists t0, forall t, (t0 <= t)%nat -> sqrt (share d k) <= chance (p t) (3 * C / 4) (fun v => v)) /\
  forall d k C (p : law vec), (0 < k < d)%nat -> 0 < C -> lawful p ->
  E p square <= 9 * C ^ 2 / 16 * (1 - sqrt (share d k)) -> sqrt (share d k) <= chance p (3 * C / 4) (fun v => v).

(* still deviations vanish *)
Lemma satisfiable : vanish (fun _ => [(1, [0; 0])]).
Proof. intros c a c0 a1. exists 0%nat. intros t _. unfold chance, E. simpl. assert (n0 : norm [0; 0] = 0) by norm_of. rewrite n0, below_true by lra. lra. Qed.
(* L(w) = E (w - x)^2 / 2, x = +-1, C = 1, in two dimensions along the first: at the minimum the gradients are +-1, and P = 0 *)
Definition at_minimum : law vec := [(1 / 2, [1; 0]); (1 / 2, [-1; 0])].
Theorem reading_is_false : ~ reading.
Proof.
  intro claim. specialize (claim 2%nat 1%nat 1 at_minimum ltac:(lia) ltac:(lra)).
  assert (n1 : norm [1; 0] = 1) by norm_of. assert (n1' : norm [-1; 0] = 1) by norm_of.
  assert (h : sqrt (share 2 1) <= 0).
  { replace 0 with (chance at_minimum (3 * 1 / 4) (fun v => v)).
    - apply claim; [lawful_by | repeat constructor |].
      cbv [mean_vector at_minimum sum map fold_right add zip scale fst snd zero repeat]. f_equal; [lra|]. f_equal; lra.
    - unfold chance, at_minimum, E; simpl. rewrite n1, n1', !below_false by lra. lra. }
  assert (0 < sqrt (share 2 1)) by (apply sqrt_lt_R0; unfold share; simpl; lra). lra.
Qed.
Theorem correction_holds : correction.
Proof.
  split.
  { intros d k C p [k0 kd] C0 v. apply (v (3 * C / 4) (sqrt (share d k))); [lra|]. rewrite <- sqrt_1. apply sqrt_lt_1_alt.
    pose proof (share_pos d k k0 ltac:(lia)). pose proof (share_lt d k kd). lra. }
  intros d k C p [k0 kd] C0 lp small. set (c := 3 * C / 4). assert (c0 : 0 < c) by (unfold c; lra).
  assert (cheb : E p (fun v => 1 + (-/ (c * c)) * square v) <= chance p c (fun v => v)).
  { apply E_le; [apply lp|]. intro v. unfold below. destruct (Rlt_dec (norm v) c) as [lt|ge].
    - pose proof (square_nonneg v). assert (0 < / (c * c)) by (apply Rinv_0_lt_compat; nra). nra.
    - assert (c * c <= square v) by (rewrite <- norm_norm; nra).
      assert (1 <= / (c * c) * square v).
      { apply (Rmult_le_reg_l (c * c)); [nra|]. rewrite <- Rmult_assoc, Rinv_r by nra. lra. }
      lra. }
  rewrite E_add, E_constant, E_scale in cheb by exact lp.
  assert (/ (c * c) * E p square <= 1 - sqrt (share d k)).
  { apply (Rmult_le_reg_l (c * c)); [nra|]. rewrite <- Rmult_assoc, Rinv_r by nra. unfold c in *. nra. }
  lra.
Qed.
End eq63.

(* rs.fig1: Zhu and Blaschko, Improving Differentially Private SGD via Randomly Sparsified Gradients (RS), the version with Lemma 3.3: section 1.1, item (ii) and Fig. 1d.
   "Due to gradient clipping, for the coordinates [...] that are relaxed, i.e. corresponding gradients are not zeroed out, their gradients have a higher magnitude than
   without RS"; Fig. 1d "demonstrates an empirical ratio of the gradient norm of relaxed coordinates with RS over without RS". Of each example's gradient it is right
   (`correction`). Refuted is the reading for the batch's averaged gradient, for every batch. *)
Module fig1.
Definition with_RS d C m (gs : list vec) : vec := average d (map (fun g => clip C (mask m g)) gs).
Definition without_RS d C m (gs : list vec) : vec := mask m (average d (map (clip C) gs)).     (* on the same coordinates *)
Definition reading : Prop := forall d C m gs, 0 < C -> length m = d -> gs <> [] -> Forall (fun g => length g = d) gs ->
  norm (without_RS d C m gs) <= norm (with_RS d C m gs).
(* true of one example, and the gain is at most |g| / |m (.) g| *)
Definition correction : Prop := forall d C m g, 0 < C -> length m = d -> length g = d ->
  norm (mask m (clip C g)) <= norm (clip C (mask m g)) /\
  norm (clip C (mask m g)) * norm (mask m g) <= norm (mask m (clip C g)) * norm g.

(* C = 1, mask (1, 0), gradients (1, 0) and (-5, 12): with RS the two cancel, without it 4/13 is left *)
Theorem reading_is_false : ~ reading.
Proof.
  intro claim. specialize (claim 2%nat 1 [true; false] [[1; 0]; [-5; 12]] ltac:(lra) eq_refl ltac:(discriminate) ltac:(repeat constructor)).
  unfold without_RS, with_RS, average in claim. cbn [map mask] in claim.
  revert claim. clips 1 [1; 0] 1 1. clips 1 [-5; 12] 13 (1 / 13). clips 1 [-5; 0] 5 (1 / 5).
  cbv [sum map fold_right add zip scale zero repeat length INR mask]. intro claim.
  match type of claim with norm ?u <= norm ?v => replace (norm u) with (4 / 13) in claim; [replace (norm v) with 0 in claim|] end; [lra| |].
  - symmetry. norm_of.
  - symmetry. norm_of.
Qed.
Theorem correction_holds : correction.
Proof.
  intros d C m g C0 em eg. split; [apply norm_masked_clip, C0|].
  rewrite norm_clip by lra. unfold clip. rewrite mask_scale, norm_scale.
  pose proof (norm_nonneg (mask m g)) as a. pose proof (norm_mask m g) as b.
  destruct (Req_dec (norm (mask m g)) 0) as [z|nz]; [rewrite z; lra|].
  assert (0 < C / norm g) by (apply Rdiv_lt_0_compat; lra). rewrite Rabs_pos_eq by (apply Rmin_glb; lra).
  replace (Rmin 1 (C / norm g) * norm (mask m g) * norm g) with (Rmin 1 (C / norm g) * norm g * norm (mask m g)) by ring.
  apply Rmult_le_compat_r; [exact a|].
  assert (e : Rmin 1 (C / norm g) * norm g = Rmin (norm g) C).
  { unfold Rmin. destruct (Rle_dec 1 (C / norm g)) as [l|l], (Rle_dec (norm g) C) as [l'|l']; try (field; lra).
    - assert (1 * norm g <= C / norm g * norm g) by (apply Rmult_le_compat_r; lra).
      replace (C / norm g * norm g) with C in H0 by (field; lra). lra.
    - assert (~ 1 <= C / norm g) by exact l. assert (C / norm g * norm g < 1 * norm g) by (apply Rmult_lt_compat_r; lra).
      replace (C / norm g * norm g) with C in H1 by (field; lra). lra. }
  rewrite e. apply Rmin_glb; [eapply Rle_trans; [apply Rmin_l | exact b] | apply Rmin_r].
Qed.
End fig1.

(* rs.lem3.3: Zhu and Blaschko, Improving Differentially Private SGD via Randomly Sparsified Gradients (RS), the version with Lemma 3.3: Lemma 3.3.
   "Apply RS with sparsification rate r, choose p~ such that P(|xi| < 3C/4) >= sqrt(1 - r), then there is kappa in (1 - r, 1) such that
   E_m [P(|m xi| < 3C/4) h(w') |w'|] = kappa P(|xi| < 3C/4) h(w) |w|" (eq. 11), w' = m (.) w, h(v) = min(|v|, C/4), p~ symmetric. *)
Module lem3_3.
Definition h (C : R) (v : vec) : R := Rmin (norm v) (C / 4).
(* what the lemma assumes: k of d entries are kept, w is the gradient, p the law p~ of the deviation.
   w is not 0 and some entry is dropped: at w = 0 every kappa will do, at r = 0 the paper puts kappa = 1. *)
Definition assumed (d k : nat) (C : R) (w : vec) (p : law vec) : Prop :=
  (0 < k < d)%nat /\ 0 < C /\ length w = d /\ norm w <> 0 /\
  lawful p /\ in_space d p /\ symmetric p /\ sqrt (share d k) <= chance p (3 * C / 4) (fun v => v).
Definition with_mask d k C w p : R :=
  avg (masks d k) (fun m => chance p (3 * C / 4) (mask m) * h C (mask m w) * norm (mask m w)).
Definition without C w p : R := chance p (3 * C / 4) (fun v => v) * h C w * norm w.

Definition printed : Prop := forall d k C w p, assumed d k C w p ->
  exists kappa, share d k < kappa < 1 /\ with_mask d k C w p = kappa * without C w p.

(* the range is closed *)
Definition correction : Prop := forall d k C w p, assumed d k C w p ->
  exists kappa, share d k <= kappa <= 1 /\ with_mask d k C w p = kappa * without C w p.

Lemma h_scaled C n n' : 0 < C -> 0 <= n' <= n -> n' * n' * (Rmin n (C / 4) * n) <= Rmin n' (C / 4) * n' * (n * n).
Proof.
  intros C0 [a b]. assert (n' * Rmin n (C / 4) <= Rmin n' (C / 4) * n).
  { unfold Rmin. destruct (Rle_dec n (C / 4)), (Rle_dec n' (C / 4)); nra. }
  assert (0 <= n' * n) by nra. nra.
Qed.

(* kappa in [1 - r, 1]; the lower end needs no condition on p~ *)
Lemma lower d k C w p : (0 < k <= d)%nat -> 0 < C -> length w = d -> lawful p ->
  share d k * without C w p <= with_mask d k C w p.
Proof.
  intros [k0 kd] C0 e lp. unfold without, with_mask, h. set (P := chance p (3 * C / 4) (fun v => v)).
  pose proof (chance_range p (3 * C / 4) (fun v => v) lp) as [P0 _]. fold P in P0.
  destruct (Req_dec (norm w) 0) as [z|nz].
  { rewrite z, !Rmult_0_r. apply avg_nonneg, Forall_forall. intros m _.
    pose proof (chance_range p (3 * C / 4) (mask m) lp). pose proof (norm_nonneg (mask m w)).
    apply Rmult_le_pos; [apply Rmult_le_pos; [lra|]|assumption]. apply Rmin_glb; lra. }
  pose proof (norm_nonneg w) as n0. assert (0 < norm w) by lra.
  assert (S0 : 0 < square w) by (rewrite <- norm_norm; nra).
  replace (share d k * (P * Rmin (norm w) (C / 4) * norm w))
    with (P * (Rmin (norm w) (C / 4) * norm w) / square w * (share d k * square w)) by (field; lra).
  rewrite <- masked_square by (try assumption; lia). rewrite <- avg_scale. apply avg_le, Forall_forall. intros m _.
  pose proof (chance_mask p (3 * C / 4) m lp) as Pm. fold P in Pm.
  pose proof (norm_nonneg (mask m w)) as a. pose proof (norm_mask m w) as b.
  pose proof (h_scaled C (norm w) (norm (mask m w)) C0 (conj a b)) as hs.
  rewrite !norm_norm in hs. set (X := Rmin (norm (mask m w)) (C / 4) * norm (mask m w)) in *.
  assert (0 <= X) by (apply Rmult_le_pos; [apply Rmin_glb; lra | exact a]).
  rewrite (Rmult_assoc (chance p (3 * C / 4) (mask m))). fold X.
  apply Rle_trans with (P * X); [|apply Rmult_le_compat_r; assumption].
  replace (P * (Rmin (norm w) (C / 4) * norm w) / square w * square (mask m w))
    with (P * (square (mask m w) * (Rmin (norm w) (C / 4) * norm w) / square w)) by (field; lra).
  apply Rmult_le_compat_l; [exact P0|]. apply (Rmult_le_reg_r (square w)); [exact S0|].
  unfold Rdiv. rewrite Rmult_assoc, Rinv_l, Rmult_1_r by lra. exact hs.
Qed.

Lemma upper d k C w p : (0 < k <= d)%nat -> 0 < C -> length w = d -> lawful p ->
  sqrt (share d k) <= chance p (3 * C / 4) (fun v => v) -> with_mask d k C w p <= without C w p.
Proof.
  intros [k0 kd] C0 e lp cond. unfold without, with_mask, h in *. set (P := chance p (3 * C / 4) (fun v => v)) in *.
  pose proof (norm_nonneg w) as n0. assert (H0 : 0 <= Rmin (norm w) (C / 4) * norm w) by (apply Rmult_le_pos; [apply Rmin_glb; lra | exact n0]).
  apply Rle_trans with (sqrt (share d k) * (Rmin (norm w) (C / 4) * norm w)); [|rewrite Rmult_assoc; apply Rmult_le_compat_r; assumption].
  set (c := C / 4) in *. assert (0 < c) by (unfold c; lra).
  apply Rle_trans with (avg (masks d k) (fun m => Rmin (norm (mask m w)) c * norm (mask m w))).
  { apply avg_le, Forall_forall. intros m _. pose proof (chance_range p (3 * C / 4) (mask m) lp) as [_ P1].
    pose proof (norm_nonneg (mask m w)). rewrite Rmult_assoc. rewrite <- (Rmult_1_l (Rmin (norm (mask m w)) c * norm (mask m w))) at 2.
    apply Rmult_le_compat_r; [|exact P1]. apply Rmult_le_pos; [apply Rmin_glb; lra | assumption]. }
  pose proof (share_pos d k k0 ltac:(lia)) as x0. pose proof (share_le d k kd ltac:(lia)) as x1.
  assert (sx : share d k <= sqrt (share d k)).
  { rewrite <- (sqrt_sqrt (share d k)) at 1 by lra. assert (sqrt (share d k) <= 1) by (rewrite <- sqrt_1; apply sqrt_le_1_alt; lra).
    pose proof (sqrt_pos (share d k)). nra. }
  destruct (Rle_dec (norm w) c) as [le|gt].
  - rewrite (Rmin_left (norm w)) by exact le. rewrite norm_norm.
    apply Rle_trans with (share d k * square w).
    + rewrite <- masked_square by (try assumption; lia). apply avg_le, Forall_forall. intros m _.
      rewrite <- norm_norm. apply Rmult_le_compat_r; [apply norm_nonneg | apply Rmin_l].
    + apply Rmult_le_compat_r; [apply square_nonneg | exact sx].
  - rewrite (Rmin_right (norm w)) by lra.
    apply Rle_trans with (c * avg (masks d k) (fun m => norm (mask m w))).
    + rewrite <- avg_scale. apply avg_le, Forall_forall. intros m _. apply Rmult_le_compat_r; [apply norm_nonneg | apply Rmin_r].
    + pose proof (masked_norm_upper d k w (conj k0 kd) e). nra.
Qed.

Lemma without_pos d k C w p : assumed d k C w p -> 0 < without C w p.
Proof.
  intros ((k0 & kd) & C0 & e & nz & lp & _ & _ & cond). unfold without, h.
  pose proof (norm_nonneg w). assert (0 < norm w) by lra.
  assert (0 < sqrt (share d k)) by (apply sqrt_lt_R0, share_pos; lia).
  apply Rmult_lt_0_compat; [apply Rmult_lt_0_compat; [lra|]|assumption]. apply Rmin_glb_lt; lra.
Qed.

Theorem correction_holds : correction.
Proof.
  intros d k C w p A. pose proof (without_pos _ _ _ _ _ A) as W. destruct A as ((k0 & kd) & C0 & e & nz & lp & _ & _ & cond).
  pose proof (lower d k C w p ltac:(lia) C0 e lp). pose proof (upper d k C w p ltac:(lia) C0 e lp cond).
  exists (with_mask d k C w p / without C w p). split; [|field; lra]. split.
  - apply (Rmult_le_reg_r (without C w p)); [exact W|]. unfold Rdiv. rewrite Rmult_assoc, Rinv_l by lra. lra.
  - apply (Rmult_le_reg_r (without C w p)); [exact W|]. unfold Rdiv. rewrite Rmult_assoc, Rinv_l by lra. lra.
Qed.

(* the counterexample: four entries, one kept, C = 4, w = (4, 0, 0, 0), no deviation: kappa = 1/4 *)
Definition still : law vec := [(1, [0; 0; 0; 0])].
Lemma satisfiable : assumed 4 1 4 [4; 0; 0; 0] still.
Proof.
  assert (n0 : norm [0; 0; 0; 0] = 0) by norm_of. assert (n4 : norm [4; 0; 0; 0] = 4) by norm_of.
  repeat split; try lia; try lra.
  - repeat constructor; simpl; lra.
  - simpl; lra.
  - repeat constructor.
  - unfold symmetric, still, mirrored, opp; simpl. rewrite Ropp_0. apply Permutation_refl.
  - unfold chance, still, E; simpl. rewrite n0, below_true by lra.
    replace (share 4 1) with (1 / 2 * (1 / 2)) by (unfold share; simpl; field). rewrite sqrt_square; lra.
Qed.
Theorem printed_is_false : ~ printed.
Proof.
  intro claim. destruct (claim _ _ _ _ _ satisfiable) as (kappa & [low _] & e).
  assert (n0 : norm [0; 0; 0; 0] = 0) by norm_of. assert (n4 : norm [4; 0; 0; 0] = 4) by norm_of.
  unfold with_mask, without, h, chance, still, avg, E in e. simpl in e.
  rewrite n0, n4, !below_true in e by lra. rewrite !Rmin_right in e by lra. rewrite Rmin_left in e by lra.
  unfold share in low; simpl in low. lra.
Qed.
(* The remark after eq. 62 takes P(|m xi| < 3C/4) > P(|xi| < 3C/4) as natural. Under it, too, the lemma fails, at the other end: *)
(* four entries, one kept, C = 4, w = (2, 2, 2, 2), the deviation is +-w in half of the cases: kappa = 1 *)
Definition moving : law vec := [(1 / 4, [2; 2; 2; 2]); (1 / 4, [-2; -2; -2; -2]); (1 / 2, [0; 0; 0; 0])].
Lemma size_4 : norm [2; 2; 2; 2] = 4. Proof. norm_of. Qed.
Lemma size_4' : norm [-2; -2; -2; -2] = 4. Proof. norm_of. Qed.
Lemma size_0 : norm [0; 0; 0; 0] = 0. Proof. norm_of. Qed.
Lemma moving_satisfies : assumed 4 1 4 [2; 2; 2; 2] moving.
Proof.
  repeat split; try lia; try lra.
  - rewrite size_4; lra.
  - repeat constructor; simpl; lra.
  - simpl; lra.
  - repeat constructor.
  - unfold symmetric, moving, mirrored, opp; simpl. rewrite Ropp_0. replace (Ropp 2) with (-2) by lra. replace (Ropp (-2)) with 2 by lra. apply perm_swap.
  - unfold chance, moving, E; simpl. rewrite size_4, size_4', size_0, (below_true _ 0), !(below_false _ 4) by lra.
    replace (share 4 1) with (1 / 2 * (1 / 2)) by (unfold share; simpl; field). rewrite sqrt_square; lra.
Qed.
Lemma norm_one (l : list bool) v : In (l, v) [([true; false; false; false], 2); ([false; true; false; false], 2);
  ([false; false; true; false], 2); ([false; false; false; true], 2)] ->
  norm (mask l [2; 2; 2; 2]) = v /\ norm (mask l [-2; -2; -2; -2]) = v /\ norm (mask l [0; 0; 0; 0]) = 0.
Proof. simpl. intros [e|[e|[e|[e|[]]]]]; injection e as <- <-; repeat split; norm_of. Qed.
Lemma one : with_mask 4 1 4 [2; 2; 2; 2] moving = 2 /\ without 4 [2; 2; 2; 2] moving = 2.
Proof.
  split.
  - unfold with_mask, avg, masks. cbn [map app length total fold_right].
    unfold h, chance, moving, E. cbn [map total fold_right fst snd].
    repeat match goal with |- context [mask ?l [2; 2; 2; 2]] =>
      destruct (norm_one l 2 ltac:(simpl; tauto)) as (e1 & e2 & e3); rewrite ?e1, ?e2, ?e3; clear e1 e2 e3 end.
    rewrite (Rmin_right 2) by lra. rewrite !(below_true _ 2), !(below_true _ 0) by lra. simpl. lra.
  - unfold without, h, chance, moving, E; simpl. rewrite size_4, size_4', size_0, (below_true _ 0), !(below_false _ 4), Rmin_right by lra. lra.
Qed.
Theorem natural_is_false : ~ forall d k C w p, assumed d k C w p ->
  (forall m, In m (masks d k) -> chance p (3 * C / 4) (fun v => v) < chance p (3 * C / 4) (mask m)) ->
  exists kappa, share d k < kappa < 1 /\ with_mask d k C w p = kappa * without C w p.
Proof.
  intro claim. destruct (claim _ _ _ _ _ moving_satisfies) as (kappa & r & e).
  - intros m i. unfold chance, moving, E. cbn [map total fold_right fst snd].
    simpl in i. assert (j : In (m, 2) [([true; false; false; false], 2); ([false; true; false; false], 2);
      ([false; false; true; false], 2); ([false; false; false; true], 2)]).
    { destruct i as [<-|[<-|[<-|[<-|[]]]]]; simpl; tauto. }
    destruct (norm_one m 2 j) as (e1 & e2 & e3). rewrite e1, e2, e3, size_4, size_4', size_0.
    rewrite !(below_true _ 2), !(below_true _ 0), !(below_false _ 4) by lra. lra.
  - destruct one as [a b]. rewrite a, b in e. lra.
Qed.
End lem3_3.

(* rs.clipped_masks: a result of our own, on RS, Theorem 3.5 and Algorithm 1: its item 6, one epoch of two steps from a point of h Z, h = 2 gamma a.
   Two records with the slopes a (1 + 7 cos(pi w / h)) and a (1 - 7 cos(pi w / h)), whose mean is a, none clipped. Random allocation and
   shuffling climb on average, independent batches fall, and the epoch ends on h Z. How far a long run gets is proved on the page alone. *)
Module clipped_masks.
Definition wave (gamma a w : R) : R := cos (PI * (w / (2 * gamma * a))).             (* 1 or -1 at the points of h Z *)
Definition lattice (gamma a w : R) : Prop := wave gamma a w = 1 \/ wave gamma a w = -1.
Definition slope (gamma a s w : R) : R := a * (1 + s * 7 * wave gamma a w).                  (* of the record s = 1 or s = -1 *)
Definition after (gamma a s w : R) : R := w - gamma * slope gamma a s w.                     (* a step with one record *)
Definition both (gamma a w : R) : R := w - gamma * (slope gamma a 1 w + slope gamma a (-1) w).       (* a step with both; the other step is empty *)
Definition shuffled (gamma a w : R) : list R := [after gamma a (-1) (after gamma a 1 w); after gamma a 1 (after gamma a (-1) w)].
Definition allocated (gamma a w : R) : list R := both gamma a w :: both gamma a w :: shuffled gamma a w.     (* the step of each record: four cases alike *)
Definition independent (gamma a w : R) : list R := after gamma a 1 (after gamma a 1 w) :: after gamma a (-1) (after gamma a (-1) w) :: shuffled gamma a w.
Definition part : Prop := forall gamma a w, 0 < gamma -> 0 < a -> lattice gamma a w ->
  avg (allocated gamma a w) (fun v => v) = w + 3 / 2 * gamma * a /\ avg (shuffled gamma a w) (fun v => v) = w + 5 * gamma * a /\
  avg (independent gamma a w) (fun v => v) = w - 2 * gamma * a /\ Forall (lattice gamma a) (allocated gamma a w).
Section Records.
Variables gamma a : R.
Hypotheses (gamma0 : 0 < gamma) (a0 : 0 < a).
Lemma up w : wave gamma a (w + 6 * gamma * a) = - wave gamma a w.
Proof.
  unfold wave. replace (PI * ((w + 6 * gamma * a) / (2 * gamma * a))) with (PI * (w / (2 * gamma * a)) + PI + 2 * INR 1 * PI) by (simpl; field; lra).
  rewrite cos_period. apply neg_cos.
Qed.
Lemma down w : wave gamma a (w - 8 * gamma * a) = wave gamma a w.
Proof.
  unfold wave. rewrite <- (cos_period (PI * ((w - 8 * gamma * a) / (2 * gamma * a))) 2). f_equal. simpl; field; lra.
Qed.
Lemma both_down w : both gamma a w = w - 2 * gamma * a.
Proof. unfold both, slope. ring. Qed.
Lemma steps w : wave gamma a w = 1 -> after gamma a 1 w = w - 8 * gamma * a /\ after gamma a (-1) w = w + 6 * gamma * a.
Proof. intro e. unfold after, slope. rewrite e. split; ring. Qed.
Lemma steps' w : wave gamma a w = -1 -> after gamma a 1 w = w + 6 * gamma * a /\ after gamma a (-1) w = w - 8 * gamma * a.
Proof. intro e. unfold after, slope. rewrite e. split; ring. Qed.
Lemma orders w : lattice gamma a w -> exists u v, shuffled gamma a w = [u; v] /\ ((u = w - 2 * gamma * a /\ v = w + 12 * gamma * a) \/ (u = w + 12 * gamma * a /\ v = w - 2 * gamma * a)).
Proof.
  intros [e|e]; exists (after gamma a (-1) (after gamma a 1 w)), (after gamma a 1 (after gamma a (-1) w)); (split; [reflexivity|]).
  - left. destruct (steps w e) as [f g]. rewrite f, g. pose proof (down w) as x. pose proof (up w) as y. rewrite e in x, y.
    destruct (steps _ x) as [_ p]. destruct (steps' _ y) as [q _]. rewrite p, q. split; ring.
  - right. destruct (steps' w e) as [f g]. rewrite f, g. pose proof (up w) as x. pose proof (down w) as y. rewrite e in x, y.
    replace (- -1) with 1 in x by ring. destruct (steps _ x) as [_ p]. destruct (steps' _ y) as [q _]. rewrite p, q. split; ring.
Qed.
Lemma on w : lattice gamma a w -> lattice gamma a (w - 2 * gamma * a) /\ lattice gamma a (w + 12 * gamma * a).
Proof.
  intro l. replace (w + 12 * gamma * a) with (w + 6 * gamma * a + 6 * gamma * a) by ring.
  pose proof (down (w + 6 * gamma * a)) as x. replace (w + 6 * gamma * a - 8 * gamma * a) with (w - 2 * gamma * a) in x by ring.
  unfold lattice. rewrite x, !up. destruct l as [e|e]; rewrite e; split; lra.
Qed.
End Records.
Theorem part_holds : part.
Proof.
  intros gamma a w g0 a0 l. destruct (orders gamma a g0 a0 w l) as (u & v & e & c). destruct (on gamma a g0 a0 w l) as [m p].
  unfold allocated. rewrite e, !both_down.
  split; [|split; [|split]]; [| | |destruct c as [[-> ->]|[-> ->]]; repeat (apply Forall_cons; [assumption|]); apply Forall_nil].
  - unfold avg. simpl. destruct c as [[-> ->]|[-> ->]]; field.
  - unfold avg. simpl. destruct c as [[-> ->]|[-> ->]]; field.
  - unfold independent. rewrite e. unfold avg. simpl. destruct l as [x|x].
    + destruct (steps gamma a w x) as [f g]. rewrite f, g. pose proof (down gamma a g0 a0 w) as y. pose proof (up gamma a g0 a0 w) as z. rewrite x in y, z.
      destruct (steps _ _ _ y) as [h _]. destruct (steps' _ _ _ z) as [_ k]. rewrite h, k. destruct c as [[-> ->]|[-> ->]]; lra.
    + destruct (steps' gamma a w x) as [f g]. rewrite f, g. pose proof (up gamma a g0 a0 w) as y. pose proof (down gamma a g0 a0 w) as z. rewrite x in y, z.
      replace (- -1) with 1 in y by ring. destruct (steps _ _ _ y) as [h _]. destruct (steps' _ _ _ z) as [_ k]. rewrite h, k. destruct c as [[-> ->]|[-> ->]]; lra.
Qed.
End clipped_masks.

(* rs.no_noise: a result of our own, on RS, section 7: its item 1, a step of clipped SGD on (G/2) |w|^2 without noise and without deviations.
   In units of G = 1 the largest decrease over all rates is (E <w, u>)^2 / (2 E |u|^2), u the update: |w|^2 / 2 without a mask.
   That a mask leaves at most the share x = k/d of it is stated without dividing. The other items are proved on the page alone. *)
Module no_noise.
(* u = clip(m (.) w), m uniform: (E <w, u>)^2 <= x |w|^2 E |u|^2 *)
Definition part : Prop := forall d k C w, (0 < k <= d)%nat -> length w = d ->
  avg (masks d k) (fun m => dot w (clip C (mask m w))) ^ 2 <= share d k * square w * avg (masks d k) (fun m => square (clip C (mask m w))).
Lemma of_products (s q : list bool -> R) l : (forall m, 0 <= q m) ->
  avg l (fun m => s m * q m) ^ 2 <= avg l q * avg l (fun m => s m * s m * q m).
Proof.
  intro q0. set (A := avg l (fun m => s m * q m)). set (B := avg l q). set (D := avg l (fun m => s m * s m * q m)).
  assert (h : forall t, 0 <= D + - 2 * t * A + t * t * B).
  { intro t. unfold A, B, D. rewrite <- !avg_scale, <- !avg_add. apply avg_nonneg, Forall_forall. intros m _.
    replace (s m * s m * q m + - 2 * t * (s m * q m) + t * t * q m) with ((s m - t) * (s m - t) * q m) by ring.
    apply Rmult_le_pos; [apply Rle_0_sqr | apply q0]. }
  assert (B0 : 0 <= B) by (apply avg_nonneg, Forall_forall; intros m _; apply q0).
  destruct (Req_dec B 0) as [e|n].
  - destruct (Req_dec A 0) as [a|a]; [rewrite a, e; simpl; lra|].
    specialize (h ((D + 1) / (2 * A))). rewrite e in h. exfalso.
    replace (- 2 * ((D + 1) / (2 * A)) * A) with (- (D + 1)) in h by (field; exact a). lra.
  - specialize (h (A / B)). assert (Bp : 0 < B) by lra.
    replace (D + - 2 * (A / B) * A + A / B * (A / B) * B) with ((D * B - A * A) / B) in h by (field; lra).
    assert (0 <= D * B - A * A).
    { replace (D * B - A * A) with ((D * B - A * A) / B * B) by (field; lra). apply Rmult_le_pos; lra. }
    simpl; lra.
Qed.
Theorem part_holds : part.
Proof.
  intros d k C w [k0 kd] l.
  pose proof (of_products (fun m => Rmin 1 (C / norm (mask m w))) (fun m => square (mask m w)) (masks d k) (fun m => square_nonneg _)) as h.
  rewrite (masked_square d k w kd ltac:(lia) l) in h.
  rewrite (avg_ext (masks d k) (fun m => dot w (clip C (mask m w))) (fun m => Rmin 1 (C / norm (mask m w)) * square (mask m w))).
  - rewrite (avg_ext (masks d k) (fun m => square (clip C (mask m w))) (fun m => Rmin 1 (C / norm (mask m w)) * Rmin 1 (C / norm (mask m w)) * square (mask m w))); [exact h|].
    apply Forall_forall. intros m _. unfold clip. apply square_scale.
  - apply Forall_forall. intros m _. unfold clip. rewrite dot_comm, dot_scale. f_equal. unfold square. symmetry. apply dot_mask.
Qed.
End no_noise.

(* rs.rem2: Zhu and Blaschko, Improving Differentially Private SGD via Randomly Sparsified Gradients (RS), the version with Lemma 3.3: Remark 2.
   "Theorem 3.4 suggests that RS could impede the convergence of SGD with gradient clipping as 1/kappa > 1 for r > 0."
   With any kappa in (1 - r, 1), as Theorem 3.4 has it, 1/kappa > 1. Refuted is the reading with the kappa of Lemma 3.3, which its equation 11 determines.
   The hedged conclusion ("suggests", "could"), which section 7 keeps open, is not stated here. *)
Module rem2.
Import rs.lem3_3.
(* kappa as equation 11 determines it *)
Definition reading : Prop := forall d k C w p kappa, assumed d k C w p ->
  with_mask d k C w p = kappa * without C w p -> 1 / kappa > 1.
Definition correction : Prop := forall d k C w p kappa, assumed d k C w p ->
  with_mask d k C w p = kappa * without C w p -> 1 / kappa >= 1.

(* the second counterexample of rs.lem3.3: kappa = 1 *)
Theorem reading_is_false : ~ reading.
Proof.
  intro claim. specialize (claim _ _ _ _ _ 1 moving_satisfies). destruct one as [e1 e2]. rewrite e1, e2 in claim.
  specialize (claim ltac:(lra)). lra.
Qed.
Theorem correction_holds : correction.
Proof.
  intros d k C w p kappa A e. pose proof (without_pos _ _ _ _ _ A) as W. destruct A as ((k0 & kd) & C0 & l & nz & lp & _ & _ & cond).
  pose proof (lower d k C w p ltac:(lia) C0 l lp) as lo. pose proof (upper d k C w p ltac:(lia) C0 l lp cond) as up.
  rewrite e in lo, up. pose proof (share_pos d k k0 ltac:(lia)).
  assert (kappa <= 1) by nra. assert (share d k <= kappa) by nra. apply Rle_ge.
  apply (Rmult_le_reg_r kappa); [lra|]. unfold Rdiv. rewrite Rmult_assoc, Rinv_l by lra. lra.
Qed.
End rem2.

(* rs.rem3: Zhu and Blaschko, Improving Differentially Private SGD via Randomly Sparsified Gradients (RS), the version with Lemma 3.3: Remark 3.
   "RS introduces two factors: 1/kappa, (1 - r)/kappa. The noise term is reduced by (1 - r)/kappa while the remaining terms are enlarged by 1/kappa:
   a trade-off is established. The respective magnitude of Delta_sigma and other terms determines whether it is a gain or loss to apply RS."
   With any kappa in (1 - r, 1), as Theorem 3.5 has it, (1 - r)/kappa < 1 < 1/kappa. Refuted is the reading with the kappa of Lemma 3.3. *)
Module rem3.
Import rs.lem3_3.
(* reduced and enlarged, for the kappa that equation 11 of Lemma 3.3 determines, at r > 0 *)
Definition reading : Prop := forall d k C w p kappa, assumed d k C w p ->
  with_mask d k C w p = kappa * without C w p -> share d k / kappa < 1 /\ 1 / kappa > 1.
(* the right side of Theorem 3.5 without bias at learning rate g: A = G C^2 / 2, D = Delta_sigma, x = 1 - r *)
Definition bound (kappa x Delta A D T g : R) : R := 1 / kappa * (Delta / (g * T) + g * A) + x / kappa * (g * D).
(* kappa <= sqrt(1 - r): at every learning rate some other one without a mask has a bound that is no larger, whatever the noise D *)
Definition correction : Prop := forall kappa x Delta A D T, 0 < x <= 1 -> 0 < kappa <= sqrt x ->
  0 <= Delta -> 0 <= A -> 0 <= D -> 0 < T ->
  forall g, 0 < g -> exists g', 0 < g' /\ bound 1 1 Delta A D T g' <= bound kappa x Delta A D T g.

(* at kappa = 1 - r, the counterexample of rs.lem3.3, no noise is saved *)
Theorem reading_is_false : ~ reading.
Proof.
  intro claim. specialize (claim _ _ _ _ _ (1 / 4) satisfiable).
  assert (n0 : norm [0; 0; 0; 0] = 0) by norm_of. assert (n4 : norm [4; 0; 0; 0] = 4) by norm_of.
  unfold with_mask, without, h, chance, still, avg, E in claim. simpl in claim.
  rewrite n0, n4, !below_true in claim by lra. rewrite !(Rmin_right 4), !(Rmin_left 0) in claim by lra.
  destruct claim as [a _]; [lra|]. unfold share in a; simpl in a. lra.
Qed.
Theorem correction_holds : correction.
Proof.
  intros kappa x Delta A D T [x0 x1] [k0 k1] D0 A0 D'0 T0 g g0. exists (sqrt x * g).
  assert (s0 : 0 < sqrt x) by (apply sqrt_lt_R0; exact x0). split; [nra|]. unfold bound.
  assert (ex : sqrt x * sqrt x = x) by (apply sqrt_sqrt; lra). set (s := sqrt x) in *.
  assert (s1 : s <= 1) by nra.
  set (Y := Delta / (g * T)). assert (0 <= Y) by (apply Rmult_le_pos; [exact D0 | apply Rlt_le, Rinv_0_lt_compat; nra]).
  replace (Delta / (s * g * T)) with (Y / s) by (unfold Y; field; lra).
  replace (1 / 1 * (Y / s + s * g * A) + 1 / 1 * (s * g * D)) with (/ s * (Y + s * s * (g * A) + s * s * (g * D))) by (field; lra).
  rewrite ex. replace (1 / kappa * (Y + g * A) + x / kappa * (g * D)) with (/ kappa * (Y + g * A + x * (g * D))) by (field; lra).
  assert (0 <= g * A) by nra. assert (0 <= g * D) by nra.
  assert (/ s <= / kappa) by (apply Rinv_le_contravar; assumption). assert (0 < / s) by (apply Rinv_0_lt_compat; exact s0).
  apply Rmult_le_compat; nra.
Qed.
End rem3.

(* rs.thm3.1: Zhu and Blaschko, Improving Differentially Private SGD via Randomly Sparsified Gradients (RS), the version with Lemma 3.3: Theorem 3.1; RF, section 3.
   If sum clip(g(x)) + N(0, C^2 sigma^2 I) satisfies (eps, delta)-DP, so does sum clip(m (.) g(x)) + m (.) N(0, C^2 sigma^2 I).
   Only a part of it is stated: with the mask no example adds more to the sum than without it, at most C, and the sum moves by no more. That a Gaussian mechanism is as
   private at a smaller shift is not: this file has no Gaussian law. *)
Module thm3_1.
Definition summed (d : nat) (C : R) (m : list bool) (gs : list vec) : vec := sum d (map (fun g => clip C (mask m g)) gs).
Definition unmasked (d : nat) (C : R) (gs : list vec) : vec := sum d (map (clip C) gs).
(* one example added, with any mask *)
Definition part : Prop := forall d k C m g gs, 0 < C -> In m (masks d k) -> Forall (fun g => length g = d) (g :: gs) ->
  norm (sub (summed d C m (g :: gs)) (summed d C m gs)) <= norm (sub (unmasked d C (g :: gs)) (unmasked d C gs)) <= C.
(* and 2C under replacing one *)
Definition correction : Prop := forall d k C m g g' gs, 0 < C -> In m (masks d k) -> Forall (fun g => length g = d) (g :: g' :: gs) ->
  norm (sub (summed d C m (g :: gs)) (summed d C m (g' :: gs))) <= 2 * C.

Lemma fine d k C m gs : 0 < C -> In m (masks d k) -> Forall (fun g => length g = d) gs ->
  Forall (fun v => length v = d) (map (fun g => clip C (mask m g)) gs).
Proof.
  intros C0 i F. destruct (in_masks _ _ _ i) as [em _]. apply Forall_map. eapply Forall_impl; [|exact F]. simpl; intros.
  rewrite length_clip, length_mask; congruence.
Qed.
Lemma shorter C m g : 0 < C -> norm (clip C (mask m g)) <= norm (clip C g).
Proof. intro C0. rewrite !norm_clip by lra. pose proof (norm_mask m g). apply Rmin_glb; [eapply Rle_trans; [apply Rmin_l | assumption] | apply Rmin_r]. Qed.
Theorem part_holds : part.
Proof.
  intros d k C m g gs C0 i F. pose proof (fine d k C m _ C0 i F) as Fc. cbn [map] in Fc.
  pose proof (Forall_inv Fc) as l1. pose proof (Forall_inv_tail Fc) as Fc'. simpl in l1. pose proof (Forall_inv F) as lg.
  assert (Fu : Forall (fun v => length v = d) (map (clip C) gs)).
  { apply Forall_map. eapply Forall_impl; [|apply (Forall_inv_tail F)]. simpl; intros. rewrite length_clip. assumption. }
  unfold summed, unmasked. cbn [map]. unfold sum. cbn [fold_right]. rewrite !sub_same.
  - split; [apply shorter, C0 | apply norm_clip_le; lra].
  - rewrite length_clip, lg. symmetry. apply (length_sum d), Fu.
  - rewrite l1. symmetry. apply (length_sum d), Fc'.
Qed.
Theorem correction_holds : correction.
Proof.
  intros d k C m g g' gs C0 i F. pose proof (fine d k C m _ C0 i F) as Fc. cbn [map] in Fc.
  pose proof (Forall_inv Fc) as l1. pose proof (Forall_inv (Forall_inv_tail Fc)) as l2. pose proof (Forall_inv_tail (Forall_inv_tail Fc)) as Fc'.
  simpl in l1, l2. unfold summed. cbn [map]. unfold sum. cbn [fold_right].
  pose proof (length_sum d _ Fc') as ls. unfold sum in ls. rewrite sub_both by congruence.
  eapply Rle_trans; [apply norm_sub; congruence|].
  pose proof (norm_clip_le C (mask m g) ltac:(lra)). pose proof (norm_clip_le C (mask m g') ltac:(lra)). lra.
Qed.
End thm3_1.

(* rs.thm3.2: Zhu and Blaschko, Improving Differentially Private SGD via Randomly Sparsified Gradients (RS), the version with Lemma 3.3: Theorem 3.2 (eq. 5).
   Noisy SGD with RS on a G-smooth L, gamma = 1/(G sqrt T), |xi_t|^2 <= sigma_g^2: (1/T) sum |grad w_t|^2 <= 2 G / ((1 - r) sqrt T) Delta_L
   + (sigma_g^2/B + d sigma^2/B^2) / sqrt T.
   Doubt: the theorem does not say how long a mask is held. Algorithm 1 holds it for an epoch, the proof needs a fresh one at every step. *)
Module thm3_2.
(* All gradients are equal to the true one: a case that the theorem covers, for any sigma_g.
   The masks of the steps are drawn from a finite law q of sequences; each by itself is uniform. Algorithm 1 holds one for an epoch. *)
Definition uniform_masks (d k : nat) (q : law (nat -> list bool)) : Prop :=
  lawful q /\ forall t f, E q (fun m => f (m t)) = avg (masks d k) f.
(* xi_sigma / B, independent of the masks: n_0, n_1, ... are its draws over s = sigma / B *)
Fixpoint gaussian_run {O} (d : nat) (s : R) (g : vec -> vec) (gamma : R) (m : nat -> list bool) (n : nat -> O -> R) (w : vec) (t : nat) (o : O) : vec :=
  match t with O => w | S t' => let u := gaussian_run d s g gamma m n w t' o in
    sub u (scale gamma (mask (m t') (add (g u) (scale s (step_noise n d t' o))))) end.
(* With noise z_t on every gradient, as a run of finitely many outcomes o. The theorem's Gaussian noise is not a finite law; the proof uses of E that it is linear and monotone. *)
Fixpoint noisy_run {O} (g : vec -> vec) (gamma : R) (m : nat -> O -> list bool) (z : nat -> O -> vec) (w : vec) (t : nat) (o : O) : vec :=
  match t with O => w | S t' => let u := noisy_run g gamma m z w t' o in sub u (scale gamma (mask (m t' o) (add (g u) (z t' o)))) end.
(* a fresh mask: uniform whatever the iterate is *)
Definition fresh {O} (p : law O) (d k : nat) (m : nat -> O -> list bool) (path : nat -> O -> vec) (T : nat) : Prop :=
  forall t, (t < T)%nat -> forall f, E p (fun o => f (m t o) (path t o)) = E p (fun o => avg (masks d k) (fun b => f b (path t o))).
(* noise of mean 0 given mask and iterate, of second moment V before it is masked *)
Definition centred {O} (p : law O) (d k : nat) (m : nat -> O -> list bool) (z path : nat -> O -> vec) (T : nat) (V : R) : Prop :=
  forall t, (t < T)%nat -> (forall f : list bool -> vec -> vec, E p (fun o => dot (mask (m t o) (z t o)) (f (m t o) (path t o))) = 0) /\
  E p (fun o => square (mask (m t o) (z t o))) <= share d k * V.
Definition sized {O} (d : nat) (m : nat -> O -> list bool) (z : nat -> O -> vec) : Prop := forall t o, length (m t o) = d /\ length (z t o) = d.
Definition printed : Prop := exists (O : Type) (e : expectation O) (n : nat -> O -> R), unit_noise e n /\
  forall d k G B sigma sigma_g L g least_L q w T, (0 < k <= d)%nat -> 0 < G -> 1 <= B -> 0 < sigma -> 0 <= sigma_g -> (0 < T)%nat ->
  smooth d G L g -> least d L least_L -> uniform_masks d k q -> length w = d ->
  let left m t o := square (g (gaussian_run d (sigma / B) g (1 / (G * sqrt (INR T))) m n w t o)) in
  (forall m t, has e (left m t)) /\
  E q (fun m => / INR T * total (map (fun t => ex e (left m t)) (seq 0 T)))
  <= 2 * G / (share d k * sqrt (INR T)) * (L w - least_L) + 1 / sqrt (INR T) * (sigma_g ^ 2 / B + INR d * sigma ^ 2 / B ^ 2).
(* with fresh masks the printed bound holds in expectation, V = sigma_g^2/B + d sigma^2/B^2 *)
Definition correction : Prop := forall (O : Type) (p : law O) d k G L g least_L m z w T V, lawful p -> (0 < k <= d)%nat -> 0 < G -> (0 < T)%nat -> 0 <= V ->
  smooth d G L g -> least d L least_L -> length w = d -> sized d m z ->
  let path := noisy_run g (1 / (G * sqrt (INR T))) m z w in
  fresh p d k m path T -> centred p d k m z path T V ->
  / INR T * total (map (fun t => E p (fun o => square (g (path t o)))) (seq 0 T))
  <= 2 * G / (share d k * sqrt (INR T)) * (L w - least_L) + 1 / sqrt (INR T) * V.

(* one of two entries, the same in all steps: (1, 1) on |w|^2 / 2, B = 10, sigma = 1, T = 25: at least 1 on the left, 0.804 on the right *)
Definition held : law (nat -> list bool) := [(1 / 2, fun _ => [true; false]); (1 / 2, fun _ => [false; true])].
Lemma held_uniform : uniform_masks 2 1 held.
Proof. split; [lawful_by|]. intros t f. unfold E, held, avg. simpl. field. Qed.
Lemma first_kept {O} s gamma (n : nat -> O -> R) t o : exists a, gaussian_run 2 s (fun u => u) gamma (fun _ => [true; false]) n [1; 1] t o = [a; 1].
Proof. induction t as [|t [a IH]]; [exists 1; reflexivity|]. cbn [gaussian_run]. rewrite IH. eexists. unfold sub, add, scale, step_noise. cbn [seq zip mask map].
  apply f_equal2; [reflexivity|]. f_equal. ring. Qed.
Lemma second_kept {O} s gamma (n : nat -> O -> R) t o : exists a, gaussian_run 2 s (fun u => u) gamma (fun _ => [false; true]) n [1; 1] t o = [1; a].
Proof. induction t as [|t [a IH]]; [exists 1; reflexivity|]. cbn [gaussian_run]. rewrite IH. eexists. unfold sub, add, scale, step_noise. cbn [seq zip mask map].
  apply f_equal2; [ring|]. reflexivity. Qed.
Theorem printed_is_false : ~ printed.
Proof.
  intros (O & e & n & _ & claim).
  destruct (claim 2%nat 1%nat 1 10 1 0 _ _ 0 held [1; 1] 25%nat ltac:(lia) Rlt_0_1 ltac:(lra) Rlt_0_1 ltac:(lra) ltac:(lia) (quadratic_smooth 2) (quadratic_least 2) held_uniform eq_refl) as [hs le]. clear claim.
  assert (r : sqrt (INR 25) = 5) by (replace (INR 25) with (5 * 5) by (simpl; ring); apply sqrt_square; lra).
  assert (low : forall m, In m [fun _ : nat => [true; false]; fun _ => [false; true]] ->
    1 <= / INR 25 * total (map (fun t => ex e (fun o => square (gaussian_run 2 (1 / 10) (fun u => u) (1 / (1 * sqrt (INR 25))) m n [1; 1] t o))) (seq 0 25))).
  { intros m i. apply (Rmult_le_reg_l (INR 25)); [simpl; lra|]. rewrite <- Rmult_assoc, Rinv_r, Rmult_1_l by (simpl; lra).
    apply Rle_trans with (INR (length (seq 0 25)) * 1); [rewrite seq_length; lra|]. apply total_ge, Forall_forall. intros t _.
    apply ex_at_least; [apply hs|]. intro o.
    destruct i as [<-|[<-|[]]]; [destruct (first_kept (1 / 10) (1 / (1 * sqrt (INR 25))) n t o) as [a ->] | destruct (second_kept (1 / 10) (1 / (1 * sqrt (INR 25))) n t o) as [a ->]];
      unfold square, dot; simpl; nra. }
  unfold E, held in le. cbn [map fst snd] in le. pose proof (low _ (or_introl eq_refl)) as a. pose proof (low _ (or_intror (or_introl eq_refl))) as b. clear low hs.
  match type of le with total [_ * ?x; _ * ?y] <= _ => change (1 <= x) in a; change (1 <= y) in b; set (X := x) in *; set (Y := y) in * end.
  clearbody X Y. cbn [total fold_right] in le. rewrite r in le. assert (Lw : square [1; 1] = 2) by (unfold square, dot; simpl; ring). rewrite Lw in le.
  unfold share in le. simpl in le. lra.
Qed.

Lemma path_length {O} d g gamma m (z : nat -> O -> vec) w t o : (forall u, length u = d -> length (g u) = d) -> length w = d -> sized d m z ->
  length (noisy_run g gamma m z w t o) = d.
Proof.
  intros gl lw sz. induction t as [|t IH]; [exact lw|]. cbn [noisy_run]. destruct (sz t o) as [lm lz].
  assert (length (add (g (noisy_run g gamma m z w t o)) (z t o)) = d) by (rewrite length_add; rewrite gl by exact IH; congruence).
  rewrite length_sub; rewrite ?length_scale, ?length_mask; congruence.
Qed.
Lemma minus_step u v : length u = length v -> sub (sub u v) u = scale (-1) v.
Proof. revert v; induction u as [|a u IH]; intros [|b v] l; try discriminate; [reflexivity|]. unfold sub, scale in *. simpl. rewrite IH by (simpl in l; lia). f_equal. ring. Qed.
Theorem correction_holds : correction.
Proof.
  intros O p d k G L g l0 m z w T V lp [k0 kd] G0 T0 V0 sm [_ low] lw sz path fr ce. pose proof sm as [[gl _] _].
  set (gamma := 1 / (G * sqrt (INR T))) in *. assert (nT : 1 <= INR T) by (replace 1 with (INR 1) by reflexivity; apply le_INR; lia).
  assert (s1 : 1 <= sqrt (INR T)) by (rewrite <- sqrt_1 at 1; apply sqrt_le_1_alt; exact nT).
  assert (gam0 : 0 < gamma) by (apply Rdiv_lt_0_compat; nra). assert (gG : gamma * G * sqrt (INR T) = 1) by (unfold gamma; field; split; lra).
  assert (x0 : 0 < share d k) by (apply share_pos; lia). set (x := share d k) in *.
  assert (pl : forall t o, length (path t o) = d) by (intros; apply path_length; assumption).
  set (S2 := fun t => E p (fun o => square (g (path t o)))).
  assert (step : forall t, (t < T)%nat -> E p (fun o => L (path (S t) o)) <= E p (fun o => L (path t o)) - gamma * x * (1 - gamma * G / 2) * S2 t + G / 2 * gamma ^ 2 * (x * V)).
  { intros t tT. destruct (ce t tT) as [c0 cV].
    pose proof (fr t tT (fun b u => dot (mask b (g u)) (g u))) as f1. cbv beta in f1.
    assert (q1 : E p (fun o => avg (masks d k) (fun b => dot (mask b (g (path t o))) (g (path t o)))) = x * S2 t).
    { unfold S2. rewrite <- E_scale. apply E_ext. intro o. rewrite masked_dot by (try lia; apply gl, pl). reflexivity. }
    rewrite q1 in f1. pose proof (c0 (fun _ u => g u)) as c1. pose proof (c0 (fun b u => mask b (g u))) as c2. cbv beta in c1, c2.
    assert (b : E p (fun o => L (path (S t) o)) <= E p (fun o => L (path t o) + (- gamma * dot (mask (m t o) (g (path t o))) (g (path t o))
      + (- gamma * dot (mask (m t o) (z t o)) (g (path t o)) + (G / 2 * gamma ^ 2 * dot (mask (m t o) (g (path t o))) (g (path t o))
      + (G * gamma ^ 2 * dot (mask (m t o) (z t o)) (mask (m t o) (g (path t o))) + G / 2 * gamma ^ 2 * square (mask (m t o) (z t o)))))))).
    { apply E_le; [apply lp|]. intro o. destruct (sz t o) as [lm lz]. pose proof (pl t o) as lu. pose proof (gl _ lu) as lg.
      pose proof (lf.lem2_1.printed_holds d G L g (path t o) (path (S t) o) ltac:(lra) sm lu (pl (S t) o)) as de.
      assert (ls : length (scale gamma (mask (m t o) (add (g (path t o)) (z t o)))) = d) by (rewrite length_scale, length_mask; rewrite length_add; congruence).
      replace (sub (path (S t) o) (path t o)) with (scale (-1) (scale gamma (mask (m t o) (add (g (path t o)) (z t o))))) in de
        by (symmetry; apply (minus_step (path t o)); congruence).
      rewrite dot_comm, !dot_scale, !square_scale, mask_add in de.
      rewrite dot_add, square_add in de by (rewrite !length_mask; congruence).
      unfold square at 1 in de. rewrite dot_mask in de. rewrite (dot_comm (mask (m t o) (g (path t o))) (mask (m t o) (z t o))) in de. lra. }
    rewrite !E_add, !E_scale, f1, c1, c2 in b. eapply Rle_trans; [exact b|].
    assert (0 <= G / 2 * gamma ^ 2) by nra. assert (G / 2 * gamma ^ 2 * E p (fun o => square (mask (m t o) (z t o))) <= G / 2 * gamma ^ 2 * (x * V)) by (apply Rmult_le_compat_l; assumption).
    nra. }
  assert (tele : forall n, (n <= T)%nat -> E p (fun o => L (path n o)) + gamma * x * (1 - gamma * G / 2) * total (map S2 (seq 0 n)) <= L w + INR n * (G / 2 * gamma ^ 2 * (x * V))).
  { induction n as [|n IH]; intro le.
    - simpl. rewrite (E_ext p _ (fun _ => L w)) by reflexivity. rewrite E_constant by exact lp. lra.
    - specialize (IH ltac:(lia)). specialize (step n ltac:(lia)). rewrite seq_S, map_app, total_app, S_INR. cbn [map total fold_right plus]. nra. }
  specialize (tele T (Nat.le_refl _)). set (Sum := total (map S2 (seq 0 T))) in *.
  assert (end_ : l0 <= E p (fun o => L (path T o))).
  { rewrite <- (E_constant p l0 lp). apply E_le; [apply lp|]. intro o. apply low, pl. }
  assert (pos : 0 <= Sum). { unfold Sum. replace 0 with (total (map (fun _ : nat => 0) (seq 0 T))) by (rewrite total_constant; ring).
    apply total_map_le, Forall_forall. intros t _. unfold S2. rewrite <- (E_constant p 0 lp). apply E_le; [apply lp|]. intro; apply square_nonneg. }
  change (/ INR T * Sum <= 2 * G / (x * sqrt (INR T)) * (L w - l0) + 1 / sqrt (INR T) * V).
  set (s := sqrt (INR T)) in *. assert (sT : INR T = s * s) by (symmetry; apply sqrt_sqrt; lra).
  assert (gs : gamma = 1 / (G * s)) by reflexivity.
  assert (half : 1 / 2 <= 1 - gamma * G / 2) by nra.
  assert (A : gamma * x * (1 / 2) * Sum <= L w - l0 + INR T * (G / 2 * gamma ^ 2 * (x * V))).
  { assert (0 <= gamma * x * Sum) by (apply Rmult_le_pos; [apply Rmult_le_pos; lra | exact pos]). nra. }
  apply (Rmult_le_reg_l (gamma * x * (1 / 2) * INR T)); [assert (0 < gamma * x) by (apply Rmult_lt_0_compat; assumption); apply Rmult_lt_0_compat; lra|].
  replace (gamma * x * (1 / 2) * INR T * (/ INR T * Sum)) with (gamma * x * (1 / 2) * Sum) by (field; lra).
  eapply Rle_trans; [exact A|]. right. rewrite sT, gs. field. repeat split; lra.
Qed.
End thm3_2.

(* rs.thm3.4: Zhu and Blaschko, Improving Differentially Private SGD via Randomly Sparsified Gradients (RS), the version with Lemma 3.3: Theorem 3.4 (eq. 12).
   Clipped SGD with RS on a G-smooth L, p~ symmetric with P(|xi| < 3C/4) >= sqrt(1 - r): there is kappa in (1 - r, 1) with (1/T) sum P h(grad w_t)|grad w_t|
   <= (1/kappa)(Delta_L/(gamma T) + gamma G C^2/2 - (1/T) sum E_m b_t), h(v) = min(|v|, C/4).
   Doubts: the theorem does not say how long a mask is held; Algorithm 1 holds it for an epoch, the proof needs a fresh one at every step. Stated is the case without
   deviation of the examples' gradients; the correction has none either. *)
Module thm3_4.
Import rs.lem3_3 rs.thm3_2.
(* The case without deviation: all gradients are the true one, p_t is the point mass at 0, which is symmetric. With p~ = p, P = 1 and b_t = 0.
   The masks are as in rs.thm3.2. *)
Fixpoint clipped_run (C : R) (g : vec -> vec) (gamma : R) (m : nat -> list bool) (w : vec) (t : nat) : vec :=
  match t with O => w | S t' => let u := clipped_run C g gamma m w t' in sub u (scale gamma (clip C (mask (m t') (g u)))) end.
Definition printed : Prop := forall d k C G gamma L g least_L q w T, (0 < k < d)%nat -> 0 < C -> 0 < G -> 0 < gamma -> (0 < T)%nat ->
  smooth d G L g -> least d L least_L -> uniform_masks d k q -> length w = d ->
  exists kappa, share d k < kappa < 1 /\
  E q (fun m => / INR T * total (map (fun t => let v := g (clipped_run C g gamma m w t) in h C v * norm v) (seq 0 T)))
  <= 1 / kappa * ((L w - least_L) / (gamma * INR T) + gamma * (G * C ^ 2 / 2)).
(* with fresh masks the inequality holds in expectation, with the value 1 - r for kappa; noise of second moment V before it is masked *)
Fixpoint noisy_clipped_run {O} (C : R) (g : vec -> vec) (gamma : R) (m : nat -> O -> list bool) (z : nat -> O -> vec) (w : vec) (t : nat) (o : O) : vec :=
  match t with O => w | S t' => let u := noisy_clipped_run C g gamma m z w t' o in
    sub u (scale gamma (add (clip C (mask (m t' o) (g u))) (mask (m t' o) (z t' o)))) end.
Definition correction : Prop := forall (O : Type) (p : law O) d k C G gamma L g least_L m z w T V, lawful p -> (0 < k <= d)%nat -> 0 < C -> 0 < G -> 0 < gamma -> (0 < T)%nat -> 0 <= V ->
  smooth d G L g -> least d L least_L -> length w = d -> sized d m z ->
  let path := noisy_clipped_run C g gamma m z w in
  fresh p d k m path T -> centred p d k m z path T V ->
  / INR T * total (map (fun t => E p (fun o => h C (g (path t o)) * norm (g (path t o)))) (seq 0 T))
  <= 1 / share d k * ((L w - least_L) / (gamma * INR T) + gamma * (G * C ^ 2 / 2)) + share d k / share d k * gamma * (G / 2 * V).

(* one of two entries, the same in all steps: (1, 1) on |w|^2 / 2, C = 6, T = 450, gamma = 1/90: at least 1 on the left, at most 4/5 on the right *)
Lemma short6 a b : 0 <= a <= 1 -> 0 <= b <= 1 -> clip 6 [a; b] = [a; b].
Proof. intros. apply clip_short, norm_le; unfold square, dot; simpl; nra. Qed.
Lemma first_run t : exists a, 0 <= a <= 1 /\ clipped_run 6 (fun u => u) (1 / 90) (fun _ => [true; false]) [1; 1] t = [a; 1].
Proof. induction t as [|t (a & r & IH)]; [exists 1; split; [lra | reflexivity]|]. cbn [clipped_run]. rewrite IH. cbn [mask]. rewrite short6 by lra.
  exists (a - 1 / 90 * a). split; [lra|]. unfold sub, scale. cbn [zip map]. apply f_equal2; [reflexivity|]. f_equal. ring. Qed.
Lemma second_run t : exists a, 0 <= a <= 1 /\ clipped_run 6 (fun u => u) (1 / 90) (fun _ => [false; true]) [1; 1] t = [1; a].
Proof. induction t as [|t (a & r & IH)]; [exists 1; split; [lra | reflexivity]|]. cbn [clipped_run]. rewrite IH. cbn [mask]. rewrite short6 by lra.
  exists (a - 1 / 90 * a). split; [lra|]. unfold sub, scale. cbn [zip map]. apply f_equal2; [ring|]. reflexivity. Qed.
Lemma at_least_one c v : 3 / 2 <= c -> 1 <= square v <= 2 -> 1 <= Rmin (norm v) c * norm v.
Proof. intros c0 [a b]. assert (norm v <= 3 / 2) by (apply norm_le; lra). rewrite Rmin_left by lra. rewrite norm_norm. exact a. Qed.
Definition mean_left (c : R) (m : nat -> list bool) : R :=
  / INR 450 * total (map (fun t => let v := clipped_run 6 (fun u => u) (1 / 90) m [1; 1] t in Rmin (norm v) c * norm v) (seq 0 450)).
Lemma left_side c m : 3 / 2 <= c -> In m [fun _ : nat => [true; false]; fun _ => [false; true]] -> 1 <= mean_left c m.
Proof.
  intros c0 i. unfold mean_left. assert (n0 : 0 < INR 450) by (apply lt_0_INR; lia). apply (Rmult_le_reg_l (INR 450)); [exact n0|].
  rewrite <- Rmult_assoc, Rinv_r, Rmult_1_l by lra. apply Rle_trans with (INR (length (seq 0 450)) * 1); [rewrite seq_length; lra|].
  apply total_ge, Forall_forall. intros t _. cbv zeta. apply at_least_one; [exact c0|].
  destruct i as [<-|[<-|[]]]; [destruct (first_run t) as (a & r & ->) | destruct (second_run t) as (a & r & ->)]; unfold square, dot; cbn [zip total fold_right]; nra.
Qed.
Lemma n450 : INR 450 = 450. Proof. rewrite INR_IZR_INZ. reflexivity. Qed.
Lemma held_value c : E held (mean_left c) = (mean_left c (fun _ => [true; false]) + mean_left c (fun _ => [false; true])) / 2.
Proof. unfold E, held. cbn [map total fold_right fst snd]. field. Qed.
Lemma start_loss : square [1; 1] = 2. Proof. unfold square, dot; simpl; ring. Qed.
Theorem printed_is_false : ~ printed.
Proof.
  intro claim. destruct (claim 2%nat 1%nat 6 1 (1 / 90) _ _ 0 held [1; 1] 450%nat ltac:(lia) ltac:(lra) Rlt_0_1 ltac:(lra) ltac:(lia)
    (quadratic_smooth 2) (quadratic_least 2) held_uniform eq_refl) as (kappa & [k0 _] & le).
  change (E held (mean_left (6 / 4)) <= 1 / kappa * ((square [1; 1] / 2 - 0) / (1 / 90 * INR 450) + 1 / 90 * (1 * 6 ^ 2 / 2))) in le.
  rewrite held_value, n450, start_loss in le.
  pose proof (left_side (6 / 4) _ ltac:(lra) (or_introl eq_refl)) as a. pose proof (left_side (6 / 4) _ ltac:(lra) (or_intror (or_introl eq_refl))) as b.
  set (A := mean_left (6 / 4) (fun _ => [true; false])) in *. set (B := mean_left (6 / 4) (fun _ => [false; true])) in *. clearbody A B.
  assert (s : share 2 1 = 1 / 2) by (unfold share; simpl; field). rewrite s in k0.
  assert (1 / kappa < 2). { apply (Rmult_lt_reg_r kappa); [lra|]. unfold Rdiv. rewrite Rmult_assoc, Rinv_l by lra. lra. }
  assert (0 < 1 / kappa) by (apply Rdiv_lt_0_compat; lra). nra.
Qed.

Lemma clipped_length {O} d C g gamma m (z : nat -> O -> vec) w t o : (forall u, length u = d -> length (g u) = d) -> length w = d -> sized d m z ->
  length (noisy_clipped_run C g gamma m z w t o) = d.
Proof.
  intros gl lw sz. induction t as [|t IH]; [exact lw|]. cbn [noisy_clipped_run]. destruct (sz t o) as [lm lz].
  set (u := noisy_clipped_run C g gamma m z w t o) in *. specialize (gl u IH).
  assert (lc : length (clip C (mask (m t o) (g u))) = d) by (rewrite length_clip, length_mask; congruence).
  assert (lz' : length (mask (m t o) (z t o)) = d) by (rewrite length_mask; congruence).
  rewrite length_sub; rewrite ?length_scale, ?length_add; congruence.
Qed.
(* <g, clip(m g)> = min(|m g|, C)|m g| is at least min(|m g|, c)|m g| for c <= C, whose mean is at least x min(|g|, c)|g| *)
Definition low (c : R) (v : vec) : R := Rmin (norm v) c * norm v.
Lemma aligned C c m g : 0 < c <= C -> low c (mask m g) <= dot (clip C (mask m g)) g.
Proof.
  intros [c0 cC]. set (v := mask m g). assert (e : dot (clip C v) g = Rmin 1 (C / norm v) * (norm v * norm v)).
  { unfold clip. rewrite dot_scale, norm_norm. unfold square, v. rewrite dot_mask. reflexivity. }
  rewrite e. unfold low. pose proof (norm_nonneg v) as n0. destruct (Req_dec (norm v) 0) as [z|nz]; [rewrite z; lra|].
  rewrite <- Rmult_assoc. apply Rmult_le_compat_r; [exact n0|]. unfold Rmin at 2. destruct (Rle_dec 1 (C / norm v)).
  - rewrite Rmult_1_l. apply Rmin_l.
  - replace (C / norm v * norm v) with C by (field; lra). eapply Rle_trans; [apply Rmin_r | lra].
Qed.
Lemma mean_aligned d k C c g : (0 < k <= d)%nat -> 0 < c <= C -> length g = d ->
  share d k * low c g <= avg (masks d k) (fun m => dot (clip C (mask m g)) g).
Proof.
  intros kd [c0 cC] lg. assert (lp : lawful [(1, zero d)]) by (split; [repeat constructor; simpl; lra | simpl; lra]).
  pose proof (lower d k (4 * c) g [(1, zero d)] kd ltac:(lra) lg lp) as lo. unfold with_mask, without, h, chance, E in lo. cbn [map total fold_right fst snd] in lo.
  replace (4 * c / 4) with c in lo by field.
  assert (n0 : norm (zero d) = 0) by apply norm_zero. rewrite n0 in lo. rewrite !(below_true _ 0) in lo by lra.
  replace (share d k * ((1 * 1 + 0) * Rmin (norm g) c * norm g)) with (share d k * low c g) in lo by (unfold low; ring). eapply Rle_trans; [exact lo|].
  apply avg_le, Forall_forall. intros m i. destruct (in_masks _ _ _ i) as [lm _]. rewrite mask_zero, lm, Nat.min_id, n0, below_true by lra.
  pose proof (aligned C c m g (conj c0 cC)) as a. unfold low in a. lra.
Qed.
Lemma fresh_bound : forall (O : Type) (p : law O) d k C c G gamma L g least_L m z w T V, lawful p -> (0 < k <= d)%nat -> 0 < c <= C -> 0 < G -> 0 < gamma -> (0 < T)%nat -> 0 <= V ->
  smooth d G L g -> least d L least_L -> length w = d -> sized d m z ->
  let path := noisy_clipped_run C g gamma m z w in
  fresh p d k m path T -> centred p d k m z path T V ->
  / INR T * total (map (fun t => E p (fun o => low c (g (path t o)))) (seq 0 T))
  <= 1 / share d k * ((L w - least_L) / (gamma * INR T) + gamma * (G * C ^ 2 / 2)) + share d k / share d k * gamma * (G / 2 * V).
Proof.
  intros O p d k C c G gamma L g l0 m z w T V lp kd cC G0 gam0 T0 V0 sm [_ lowest] lw sz path fr ce. assert (C0 : 0 < C) by lra. pose proof sm as [[gl _] _].
  assert (x0 : 0 < share d k) by (apply share_pos; lia). set (x := share d k) in *.
  assert (nT : 0 < INR T) by (apply lt_0_INR; lia).
  assert (pl : forall t o, length (path t o) = d) by (intros; apply clipped_length; assumption).
  set (H := fun t => E p (fun o => low c (g (path t o)))).
  assert (step : forall t, (t < T)%nat -> E p (fun o => L (path (S t) o)) <= E p (fun o => L (path t o)) - gamma * (x * H t) + G / 2 * gamma ^ 2 * (C ^ 2 + x * V)).
  { intros t tT. destruct (ce t tT) as [c0 cV].
    pose proof (fr t tT (fun b u => dot (clip C (mask b (g u))) (g u))) as f1. cbv beta in f1.
    assert (q1 : x * H t <= E p (fun o => avg (masks d k) (fun b => dot (clip C (mask b (g (path t o)))) (g (path t o))))).
    { unfold H. rewrite <- E_scale. apply E_le; [apply lp|]. intro o. fold x. apply mean_aligned; [exact kd | exact cC | apply gl, pl]. }
    rewrite <- f1 in q1. pose proof (c0 (fun _ u => g u)) as c1. pose proof (c0 (fun b u => clip C (mask b (g u)))) as c2. cbv beta in c1, c2.
    assert (b : E p (fun o => L (path (S t) o)) <= E p (fun o => L (path t o) + (- gamma * dot (clip C (mask (m t o) (g (path t o)))) (g (path t o))
      + (- gamma * dot (mask (m t o) (z t o)) (g (path t o)) + (G / 2 * gamma ^ 2 * C ^ 2
      + (G * gamma ^ 2 * dot (mask (m t o) (z t o)) (clip C (mask (m t o) (g (path t o)))) + G / 2 * gamma ^ 2 * square (mask (m t o) (z t o)))))))).
    { apply E_le; [apply lp|]. intro o. destruct (sz t o) as [lm lz]. pose proof (pl t o) as lu. pose proof (gl _ lu) as lg.
      pose proof (lf.lem2_1.printed_holds d G L g (path t o) (path (S t) o) ltac:(lra) sm lu (pl (S t) o)) as de.
      set (cl := clip C (mask (m t o) (g (path t o)))) in *. set (n := mask (m t o) (z t o)) in *.
      assert (lc : length cl = d) by (unfold cl; rewrite length_clip, length_mask; congruence). assert (ln' : length n = d) by (unfold n; rewrite length_mask; congruence).
      assert (la : length (add cl n) = d) by (rewrite length_add; congruence).
      assert (ps : path (S t) o = sub (path t o) (scale gamma (add cl n))) by reflexivity.
      rewrite ps in de at 2 3. rewrite minus_step in de by (rewrite length_scale; congruence).
      rewrite dot_comm, !dot_scale, !square_scale in de. rewrite dot_add, square_add in de by congruence. rewrite (dot_comm cl n) in de.
      assert (sc : square cl <= C ^ 2).
      { rewrite <- norm_norm. pose proof (norm_clip_le C (mask (m t o) (g (path t o))) ltac:(lra)). pose proof (norm_nonneg cl). fold cl in H0. nra. }
      assert (0 <= G / 2 * gamma ^ 2) by nra. assert (G / 2 * gamma ^ 2 * square cl <= G / 2 * gamma ^ 2 * C ^ 2) by (apply Rmult_le_compat_l; assumption). lra. }
    rewrite !E_add, !E_scale, c1, c2, (E_constant p (C ^ 2) lp) in b. eapply Rle_trans; [exact b|].
    assert (0 <= G / 2 * gamma ^ 2) by nra. assert (G / 2 * gamma ^ 2 * E p (fun o => square (mask (m t o) (z t o))) <= G / 2 * gamma ^ 2 * (x * V)) by (apply Rmult_le_compat_l; assumption).
    nra. }
  assert (tele : forall n, (n <= T)%nat -> E p (fun o => L (path n o)) + gamma * x * total (map H (seq 0 n)) <= L w + INR n * (G / 2 * gamma ^ 2 * (C ^ 2 + x * V))).
  { induction n as [|n IH]; intro le.
    - simpl. rewrite (E_ext p _ (fun _ => L w)) by reflexivity. rewrite E_constant by exact lp. lra.
    - specialize (IH ltac:(lia)). specialize (step n ltac:(lia)). rewrite seq_S, map_app, total_app, S_INR. cbn [map total fold_right plus]. nra. }
  specialize (tele T (Nat.le_refl _)). set (Sum := total (map H (seq 0 T))) in *.
  assert (end_ : l0 <= E p (fun o => L (path T o))).
  { rewrite <- (E_constant p l0 lp). apply E_le; [apply lp|]. intro o. apply lowest, pl. }
  change (/ INR T * Sum <= 1 / x * ((L w - l0) / (gamma * INR T) + gamma * (G * C ^ 2 / 2)) + x / x * gamma * (G / 2 * V)).
  apply (Rmult_le_reg_l (gamma * x * INR T)); [apply Rmult_lt_0_compat; [apply Rmult_lt_0_compat; assumption | exact nT]|].
  replace (gamma * x * INR T * (/ INR T * Sum)) with (gamma * x * Sum) by (field; lra).
  apply Rle_trans with (L w - l0 + INR T * (G / 2 * gamma ^ 2 * (C ^ 2 + x * V))); [lra|]. right. field. repeat split; lra.
Qed.
Theorem correction_holds : correction.
Proof.
  intros O p d k C G gamma L g l0 m z w T V lp kd C0 G0 g0 T0 V0 sm le lw sz path fr ce.
  exact (fresh_bound O p d k C (C / 4) G gamma L g l0 m z w T V lp kd ltac:(lra) G0 g0 T0 V0 sm le lw sz fr ce).
Qed.
End thm3_4.

(* rs.thm3.5: Zhu and Blaschko, Improving Differentially Private SGD via Randomly Sparsified Gradients (RS), the version with Lemma 3.3: Theorem 3.5 (eq. 14).
   DP-SGD with RS: as Theorem 3.4, with the noise N(0, C^2 sigma^2 I) and + ((1 - r)/kappa) gamma Delta_sigma on the right, Delta_sigma = C^2 sigma^2 d G / (2 B^2).
   Doubts: the theorem does not say how long a mask is held; Algorithm 1 holds it for an epoch, the proof needs a fresh one at every step. Stated is the case without
   deviation of the examples' gradients; the correction has none either. *)
Module thm3_5.
Import rs.lem3_3 rs.thm3_2 rs.thm3_4.
(* The case without deviation (see rs.thm3.4), B examples with the true gradient. Masks are independent of the noise; n_0, n_1, ...: its draws over sigma C / B. *)
Definition Delta_sigma (C sigma d G B : R) : R := C ^ 2 * sigma ^ 2 * d * G / (2 * B ^ 2).
Fixpoint private_run {O} (d : nat) (C s : R) (g : vec -> vec) (gamma : R) (m : nat -> list bool) (n : nat -> O -> R) (w : vec) (t : nat) (o : O) : vec :=
  match t with O => w | S t' => let u := private_run d C s g gamma m n w t' o in
    sub u (scale gamma (add (clip C (mask (m t') (g u))) (mask (m t') (scale s (step_noise n d t' o))))) end.
Definition printed : Prop := exists (O : Type) (e : expectation O) (n : nat -> O -> R), unit_noise e n /\
  forall d k C G B sigma gamma L g least_L q w T, (0 < k < d)%nat -> 0 < C -> 0 < G -> 1 <= B -> 0 < sigma -> 0 < gamma -> (0 < T)%nat ->
  smooth d G L g -> least d L least_L -> uniform_masks d k q -> length w = d ->
  let left m t o := let v := g (private_run d C (C * sigma / B) g gamma m n w t o) in h C v * norm v in
  (forall m t, has e (left m t)) /\
  exists kappa, share d k < kappa < 1 /\
  E q (fun m => / INR T * total (map (fun t => ex e (left m t)) (seq 0 T)))
  <= 1 / kappa * ((L w - least_L) / (gamma * INR T) + gamma * (G * C ^ 2 / 2))
     + (1 - (1 - share d k)) / kappa * gamma * Delta_sigma C sigma (INR d) G B.
(* with fresh masks and noise of second moment C^2 sigma^2 d / B^2 it holds in expectation, with the value 1 - r for kappa *)
Definition correction : Prop := forall (O : Type) (p : law O) d k C G gamma sigma B L g least_L m z w T, lawful p -> (0 < k <= d)%nat -> 0 < C -> 0 < G -> 0 < gamma -> (0 < T)%nat -> 1 <= B ->
  smooth d G L g -> least d L least_L -> length w = d -> sized d m z ->
  let path := noisy_clipped_run C g gamma m z w in
  fresh p d k m path T -> centred p d k m z path T (C ^ 2 * sigma ^ 2 * INR d / B ^ 2) ->
  / INR T * total (map (fun t => E p (fun o => h C (g (path t o)) * norm (g (path t o)))) (seq 0 T))
  <= 1 / share d k * ((L w - least_L) / (gamma * INR T) + gamma * (G * C ^ 2 / 2)) + share d k / share d k * gamma * Delta_sigma C sigma (INR d) G B.

(* one of two entries, the same in all steps: (1, 1) on |w|^2 / 2, C = 6, B = 10, sigma = 1, T = 450, gamma = 1/90: at least 1 on the left, at most 0.804 on the right *)
Lemma first_stays {O} s (n : nat -> O -> R) t o : exists a, private_run 2 6 s (fun u => u) (1 / 90) (fun _ => [true; false]) n [1; 1] t o = [a; 1].
Proof. induction t as [|t (a & IH)]; [exists 1; reflexivity|]. cbn [private_run]. rewrite IH. eexists. unfold sub, add, clip, scale, step_noise. cbn [seq zip map mask].
  apply f_equal2; [reflexivity|]. f_equal. ring. Qed.
Lemma second_stays {O} s (n : nat -> O -> R) t o : exists a, private_run 2 6 s (fun u => u) (1 / 90) (fun _ => [false; true]) n [1; 1] t o = [1; a].
Proof. induction t as [|t (a & IH)]; [exists 1; reflexivity|]. cbn [private_run]. rewrite IH. eexists. unfold sub, add, clip, scale, step_noise. cbn [seq zip map mask].
  apply f_equal2; [ring|]. reflexivity. Qed.
Lemma stays_above c v : 1 <= c -> 1 <= square v -> 1 <= low c v.
Proof. intros c1 s1. assert (1 <= norm v) by (rewrite <- sqrt_1; apply sqrt_le_1_alt; exact s1). unfold low.
  assert (1 <= Rmin (norm v) c) by (apply Rmin_glb; assumption). nra. Qed.
(* what stays out of the masks' reach keeps the left side up, whatever the noise *)
Lemma kept_up {O} (e : expectation O) (n : nat -> O -> R) s c : 1 <= c ->
  (forall m t, has e (fun o => low c (private_run 2 6 s (fun u => u) (1 / 90) m n [1; 1] t o))) ->
  1 <= E held (fun m => / INR 450 * total (map (fun t => ex e (fun o => low c (private_run 2 6 s (fun u => u) (1 / 90) m n [1; 1] t o))) (seq 0 450))).
Proof.
  intros c1 hs. assert (n0 : 0 < INR 450) by (apply lt_0_INR; lia).
  assert (low1 : forall m, In m [fun _ : nat => [true; false]; fun _ => [false; true]] ->
    1 <= / INR 450 * total (map (fun t => ex e (fun o => low c (private_run 2 6 s (fun u => u) (1 / 90) m n [1; 1] t o))) (seq 0 450))).
  { intros m i. apply (Rmult_le_reg_l (INR 450)); [exact n0|]. rewrite <- Rmult_assoc, Rinv_r, Rmult_1_l by lra.
    apply Rle_trans with (INR (length (seq 0 450)) * 1); [rewrite seq_length; lra|]. apply total_ge, Forall_forall. intros t _.
    apply ex_at_least; [apply hs|]. intro o. apply stays_above; [exact c1|].
    destruct i as [<-|[<-|[]]]; [destruct (first_stays s n t o) as (a & ->) | destruct (second_stays s n t o) as (a & ->)]; unfold square, dot; simpl; nra. }
  pose proof (low1 _ (or_introl eq_refl)) as a. pose proof (low1 _ (or_intror (or_introl eq_refl))) as b.
  unfold E, held. cbn [map fst snd]. match goal with |- _ <= total [_ * ?x; _ * ?y] => set (X := x) in *; set (Y := y) in * end.
  clearbody X Y. cbn [total fold_right]. lra.
Qed.
Theorem printed_is_false : ~ printed.
Proof.
  intros (O & e & n & _ & claim). destruct (claim 2%nat 1%nat 6 1 10 1 (1 / 90) _ _ 0 held [1; 1] 450%nat ltac:(lia) ltac:(lra) Rlt_0_1 ltac:(lra) Rlt_0_1 ltac:(lra) ltac:(lia)
    (quadratic_smooth 2) (quadratic_least 2) held_uniform eq_refl) as (hs & kappa & [k0 _] & le). clear claim.
  pose proof (kept_up e n (6 * 1 / 10) (6 / 4) ltac:(lra) hs) as ge.
  match type of le with ?X <= _ => change X with (E held (fun m => / INR 450 * total (map (fun t => ex e (fun o => low (6 / 4) (private_run 2 6 (6 * 1 / 10) (fun u => u) (1 / 90) m n [1; 1] t o))) (seq 0 450)))) in le end.
  assert (le' := Rle_trans _ _ _ ge le). clear ge le. cbv beta in le'. rewrite n450, start_loss in le'.
  assert (D : Delta_sigma 6 1 (INR 2) 1 10 = 36 / 100) by (unfold Delta_sigma; simpl; field). rewrite D in le'.
  assert (s : share 2 1 = 1 / 2) by (unfold share; simpl; field). rewrite s in k0, le'.
  assert (1 / kappa < 2). { apply (Rmult_lt_reg_r kappa); [lra|]. unfold Rdiv. rewrite Rmult_assoc, Rinv_l by lra. lra. }
  assert (0 < 1 / kappa) by (apply Rdiv_lt_0_compat; lra).
  replace ((1 - (1 - 1 / 2)) / kappa * (1 / 90) * (36 / 100)) with (1 / kappa * (1 / 500)) in le' by (field; lra). nra.
Qed.

Theorem correction_holds : correction.
Proof.
  intros O p d k C G gamma sigma B L g l0 m z w T lp kd C0 G0 g0 T0 B1 sm le lw sz path fr ce.
  replace (Delta_sigma C sigma (INR d) G B) with (G / 2 * (C ^ 2 * sigma ^ 2 * INR d / B ^ 2)) by (unfold Delta_sigma; field; lra).
  apply (rs.thm3_4.correction_holds O p d k C G gamma L g l0 m z w T); try assumption.
  apply Rmult_le_pos; [|apply Rlt_le, Rinv_0_lt_compat; nra]. apply Rmult_le_pos; [|apply pos_INR]. pose proof (Rle_0_sqr (C * sigma)) as q. unfold Rsqr in q. nra.
Qed.
End thm3_5.

(* rs.thm5.1: Zhu and Blaschko, Improving Differentially Private SGD via Randomly Sparsified Gradients (RS), the version with Lemma 3.3: Theorem 5.1 (eq. 17).
   The gradient g = k x of an unknown x is perturbed by xi ~ N(0, sigma^2 I) and masked; the attacker knows k and m and solves (m k) x^ = m (g + xi) by least
   squares: E |x - x^|^2 >= sigma^2 / ((1 - r)|k|^2). The proof assumes m (.) k <> 0, "otherwise the reconstruction will fail, i.e. arbitrary reconstruction error".
   Refuted is the reading of this assumption as an event, with the mean taken given it. If no mask has m (.) k = 0 the bound holds (`correction`); if a failure counts
   as an infinite error it holds too, and is not stated here.
   Doubt: the proof does not say which of the three it means. *)
Module thm5_1.
(* the least squares solution from what is left of g + sigma n *)
Definition solved (m : list bool) (k n : vec) (x sigma : R) : R :=
  dot (mask m k) (mask m (add (scale x k) (scale sigma n))) / square (mask m k).
Definition hit (k : vec) (m : list bool) : bool := if Rlt_dec 0 (square (mask m k)) then true else false.   (* m (.) k <> 0 *)
(* the mean error given m (.) k <> 0, over the uniform mask and the noise *)
Definition mean_error {O} (e : expectation O) (n : nat -> O -> R) (d K : nat) (k : vec) (x sigma : R) : R :=
  avg (filter (hit k) (masks d K)) (fun m => ex e (fun o => (x - solved m k (noise n d o) x sigma) ^ 2)).
Definition reading : Prop := exists (O : Type) (e : expectation O) (n : nat -> O -> R), unit_noise e n /\
  forall d K k x sigma, (0 < K <= d)%nat -> length k = d -> 0 < square k -> 0 < sigma ->
  sigma ^ 2 / (share d K * square k) <= mean_error e n d K k x sigma.
(* it holds where every mask keeps a non-zero entry of k *)
Definition correction : Prop := forall (O : Type) (e : expectation O) (n : nat -> O -> R), unit_noise e n ->
  forall d K k x sigma, (0 < K <= d)%nat -> length k = d -> 0 < square k -> 0 < sigma ->
  Forall (fun m => 0 < square (mask m k)) (masks d K) ->
  sigma ^ 2 / (share d K * square k) <= mean_error e n d K k x sigma.

Lemma ex_quadratic {O} (e : expectation O) (n : nat -> O -> R) (nz : unit_noise e n) c d (v : vec) : length v = d ->
  forall i, has e (fun o => (c * dot v (from O n i d o)) ^ 2) /\ ex e (fun o => (c * dot v (from O n i d o)) ^ 2) = c ^ 2 * square v /\
  (forall j, (j < i)%nat -> has e (fun o => n j o * dot v (from O n i d o)) /\ ex e (fun o => n j o * dot v (from O n i d o)) = 0).
Proof.
  destruct nz as (h1 & m1 & h2 & m2). revert d. induction v as [|a v IH]; intros [|d] l i; try discriminate.
  - assert (q : forall o, 0 = (c * dot [] (from O n i 0 o)) ^ 2) by (intro; unfold dot; simpl; ring).
    split; [apply (has_ext e _ _ q), has_constant|]. split; [rewrite <- (ex_ext e _ _ q), ex_constant; unfold square, dot; simpl; ring|].
    intros j _. assert (q' : forall o, 0 = n j o * dot [] (from O n i 0 o)) by (intro; unfold dot; simpl; ring).
    split; [apply (has_ext e _ _ q'), has_constant | rewrite <- (ex_ext e _ _ q'), ex_constant; reflexivity].
  - injection l as l. destruct (IH d l (S i)) as (a1 & a2 & a3). set (D := fun o => dot v (from O n (S i) d o)) in *.
    assert (s : forall o, dot (a :: v) (from O n i (S d) o) = a * n i o + D o) by (intro; reflexivity).
    destruct (a3 i ltac:(lia)) as [b1 b2]. change (has e (fun o => (c * D o) ^ 2)) in a1.
    change (ex e (fun o => (c * D o) ^ 2) = c ^ 2 * square v) in a2. change (has e (fun o => n i o * D o)) in b1. change (ex e (fun o => n i o * D o) = 0) in b2.
    assert (q : forall o, 1 * (c ^ 2 * a ^ 2 * (n i o * n i o) + 2 * c ^ 2 * a * (n i o * D o)) + 1 * (c * D o) ^ 2
      = (c * dot (a :: v) (from O n i (S d) o)) ^ 2) by (intro o; rewrite s; ring).
    pose proof (has_linear e (c ^ 2 * a ^ 2) (2 * c ^ 2 * a) _ _ (h2 i i) b1) as p1.
    split; [apply (has_ext e _ _ q), has_linear; assumption|]. split.
    + rewrite <- (ex_ext e _ _ q), (ex_linear e 1 1 _ _ p1 a1), (ex_linear e _ _ _ _ (h2 i i) b1), a2, b2, m2, Nat.eqb_refl, square_cons. ring.
    + intros j lt. destruct (a3 j ltac:(lia)) as [c1 c2]. change (has e (fun o => n j o * D o)) in c1. change (ex e (fun o => n j o * D o) = 0) in c2.
      assert (q' : forall o, a * (n j o * n i o) + 1 * (n j o * D o) = n j o * dot (a :: v) (from O n i (S d) o)) by (intro o; rewrite s; ring).
      split; [apply (has_ext e _ _ q'), has_linear; [apply h2 | exact c1]|].
      rewrite <- (ex_ext e _ _ q'), (ex_linear e _ _ _ _ (h2 j i) c1), c2, m2.
      replace (j =? i)%nat with false by (symmetry; apply Nat.eqb_neq; lia). ring.
Qed.
(* given m (.) k <> 0 the error is sigma^2 / |m (.) k|^2 *)
Lemma error_is {O} (e : expectation O) (n : nat -> O -> R) (nz : unit_noise e n) d m k x sigma : length m = d -> length k = d -> 0 < square (mask m k) ->
  ex e (fun o => (x - solved m k (noise n d o) x sigma) ^ 2) = sigma ^ 2 / square (mask m k).
Proof.
  intros em ek pos. set (X := square (mask m k)) in *.
  rewrite (ex_ext e _ (fun o => (- sigma / X * dot (mask m k) (from O n 0 d o)) ^ 2)).
  - destruct (ex_quadratic e n nz (- sigma / X) d (mask m k) ltac:(rewrite length_mask; congruence) 0) as (_ & -> & _).
    fold X. field. lra.
  - intro o. f_equal. unfold solved. fold X.
    rewrite (dot_comm (mask m k)), mask_add, !mask_scale, dot_add by (rewrite !length_scale, !length_mask by (rewrite ?length_noise; congruence); rewrite length_noise; congruence).
    rewrite !dot_scale. fold (square (mask m k)). fold X. rewrite (dot_comm (mask m (noise n d o))), dot_comm, dot_mask, dot_comm.
    change (noise n d o) with (from O n 0 d o).
    assert (q : dot k (mask m (from O n 0 d o)) = dot (mask m k) (from O n 0 d o)) by (rewrite <- dot_mask, dot_comm, <- dot_mask, dot_comm; reflexivity).
    rewrite q. field. lra.
Qed.
(* k = (1, 0), one of two entries kept, sigma = 1: the error is 1, the printed bound 2 *)
Theorem reading_is_false : ~ reading.
Proof.
  intros (O & e & n & nz & claim).
  assert (s1 : square [1; 0] = 1) by (unfold square, dot; simpl; lra). assert (s0 : square [0; 0] = 0) by (unfold square, dot; simpl; lra).
  specialize (claim 2%nat 1%nat [1; 0] 0 1 ltac:(lia) eq_refl ltac:(lra) ltac:(lra)).
  unfold mean_error in claim. cbn [masks map app filter] in claim. unfold hit in claim. cbn [mask] in claim. rewrite s1, s0 in claim.
  destruct (Rlt_dec 0 1) as [_|no]; [|apply no; lra]. destruct (Rlt_dec 0 0) as [bad|_]; [lra|].
  unfold avg in claim. cbn [map total fold_right length] in claim.
  rewrite (error_is e n nz 2 [true; false] [1; 0] 0 1 eq_refl eq_refl) in claim by (cbn [mask]; lra).
  cbn [mask] in claim. rewrite s1 in claim. unfold share in claim. simpl in claim. lra.
Qed.
Lemma filter_all {A} (f : A -> bool) l : Forall (fun a => f a = true) l -> filter f l = l.
Proof. induction 1; simpl; [reflexivity|]. rewrite H, IHForall. reflexivity. Qed.
Lemma avg_inverse {A} (l : list A) f : l <> [] -> Forall (fun a => 0 < f a) l -> 0 < avg l f -> / avg l f <= avg l (fun a => / f a).
Proof.
  intros ne pos m0. set (mu := avg l f) in *.
  apply Rle_trans with (avg l (fun a => 2 / mu + - / (mu * mu) * f a)).
  - rewrite avg_add, avg_constant, avg_scale by exact ne. fold mu. right. field. lra.
  - apply avg_le. eapply Forall_impl; [|exact pos]. simpl. intros a f0. apply (Rmult_le_reg_r (f a * (mu * mu))); [apply Rmult_lt_0_compat; [exact f0 | nra]|].
    replace ((2 / mu + - / (mu * mu) * f a) * (f a * (mu * mu))) with (2 * mu * f a - f a * f a) by (field; lra).
    replace (/ f a * (f a * (mu * mu))) with (mu * mu) by (field; lra). pose proof (Rle_0_sqr (mu - f a)) as z. unfold Rsqr in z. lra.
Qed.
Theorem correction_holds : correction.
Proof.
  intros O e n nz d K k x sigma [K0 Kd] ek pos s0 all. unfold mean_error.
  rewrite filter_all by (eapply Forall_impl; [|exact all]; intros m h; unfold hit; destruct (Rlt_dec 0 (square (mask m k))); [reflexivity | contradiction]).
  rewrite (avg_ext _ _ (fun m => sigma ^ 2 * / square (mask m k))).
  - rewrite avg_scale. assert (S : avg (masks d K) (fun m => square (mask m k)) = share d K * square k) by (apply masked_square; try assumption; lia).
    pose proof (share_pos d K K0 ltac:(lia)). unfold Rdiv. rewrite <- S. apply Rmult_le_compat_l; [nra|].
    apply avg_inverse; [apply masks_some; exact Kd | exact all | rewrite S; apply Rmult_lt_0_compat; assumption].
  - apply Forall_forall. intros m i. destruct (in_masks _ _ _ i) as [em _].
    apply (error_is e n nz d m k x sigma em ek). apply (proj1 (Forall_forall _ _) all m i).
Qed.
End thm5_1.
