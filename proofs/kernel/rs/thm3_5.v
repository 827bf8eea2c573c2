(* rs.thm3.5: Zhu and Blaschko, Improving Differentially Private SGD via Randomly Sparsified Gradients (RS), the version with Lemma 3.3: Theorem 3.5 (eq. 14).
   DP-SGD with RS: as Theorem 3.4, with the noise N(0, C^2 sigma^2 I) and + ((1 - r)/kappa) gamma Delta_sigma on the right, Delta_sigma = C^2 sigma^2 d G / (2 B^2).
   Doubts: the theorem does not say how long a mask is held; Algorithm 1 holds it for an epoch, the proof needs a fresh one at every step. Stated is the case without
   deviation of the examples' gradients; the correction has none either. *)
From kernel Require Import definitions lemmas.

From kernel Require Import rs.lem3_3 rs.thm3_2 rs.thm3_4.
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
