(* rs.thm3.4: Zhu and Blaschko, Improving Differentially Private SGD via Randomly Sparsified Gradients (RS), the version with Lemma 3.3: Theorem 3.4 (eq. 12).
   Clipped SGD with RS on a G-smooth L, p~ symmetric with P(|xi| < 3C/4) >= sqrt(1 - r): there is kappa in (1 - r, 1) with (1/T) sum P h(grad w_t)|grad w_t|
   <= (1/kappa)(Delta_L/(gamma T) + gamma G C^2/2 - (1/T) sum E_m b_t), h(v) = min(|v|, C/4).
   Doubts: the theorem does not say how long a mask is held; Algorithm 1 holds it for an epoch, the proof needs a fresh one at every step. Stated is the case without
   deviation of the examples' gradients; the correction has none either. *)
From kernel Require Import definitions lemmas.

From kernel Require lf.lem2_1.
From kernel Require Import rs.lem3_3 rs.thm3_2.
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
