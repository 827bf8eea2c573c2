(* rs.thm3.2: Zhu and Blaschko, Improving Differentially Private SGD via Randomly Sparsified Gradients (RS), the version with Lemma 3.3: Theorem 3.2 (eq. 5).
   Noisy SGD with RS on a G-smooth L, gamma = 1/(G sqrt T), |xi_t|^2 <= sigma_g^2: (1/T) sum |grad w_t|^2 <= 2 G / ((1 - r) sqrt T) Delta_L
   + (sigma_g^2/B + d sigma^2/B^2) / sqrt T.
   Doubt: the theorem does not say how long a mask is held. Algorithm 1 holds it for an epoch, the proof needs a fresh one at every step. *)
From kernel Require Import definitions lemmas.
From kernel Require lf.lem2_1.

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
