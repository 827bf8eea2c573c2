(* rf.thm2: Differentially private SGD with sparse gradients (RF), anonymous submission under double-blind review: Theorem 2 (eq. 4).
   DP-SGD with random freeze, grad w G-Lipschitz, p~ symmetric: there is kappa >= 1 - r with (1/T) sum P(|xi| < C/4) h(grad w_t)|grad w_t|
   <= (1/kappa)(Delta_L/(gamma T) + gamma Delta_C + (1 - r) gamma Delta_DP - (1/T) sum E_m b_t), h(v) = min(|v|, 3C/4), Delta_C = G C^2 / 2, Delta_DP = C^2 sigma^2 d G / (2 B^2).
   Doubts: the theorem does not say how long a mask is held; Algorithm 1 holds it for an epoch, the proof needs a fresh one at every step. Stated is the case without
   deviation of the examples' gradients; the correction has none either. *)
From kernel Require Import definitions lemmas.

From kernel Require Import rs.thm3_2 rs.thm3_4 rs.thm3_5.
(* The case without deviation (see rs.thm3.4), with P = 1 and b_t = 0; the run is that of rs.thm3.5. *)
Definition h (C : R) (v : vec) : R := Rmin (norm v) (3 * C / 4).
Definition Delta_DP (C sigma d G B : R) : R := C ^ 2 * sigma ^ 2 * d * G / (2 * B ^ 2).
Definition printed : Prop := exists (O : Type) (e : expectation O) (n : nat -> O -> R), unit_noise e n /\
  forall d k C G B sigma gamma L g least_L q w T, (0 < k < d)%nat -> 0 < C -> 0 < G -> 1 <= B -> 0 < sigma -> 0 < gamma -> (0 < T)%nat ->
  smooth d G L g -> least d L least_L -> uniform_masks d k q -> length w = d ->
  let left m t o := let v := g (private_run d C (C * sigma / B) g gamma m n w t o) in h C v * norm v in
  (forall m t, has e (left m t)) /\
  exists kappa, share d k <= kappa /\
  E q (fun m => / INR T * total (map (fun t => ex e (left m t)) (seq 0 T)))
  <= 1 / kappa * ((L w - least_L) / (gamma * INR T) + gamma * (G * C ^ 2 / 2) + share d k * gamma * Delta_DP C sigma (INR d) G B).
(* with fresh masks and noise of second moment C^2 sigma^2 d / B^2 it holds in expectation, with the value 1 - r for kappa *)
Definition correction : Prop := forall (O : Type) (p : law O) d k C G gamma sigma B L g least_L m z w T, lawful p -> (0 < k <= d)%nat -> 0 < C -> 0 < G -> 0 < gamma -> (0 < T)%nat -> 1 <= B ->
  smooth d G L g -> least d L least_L -> length w = d -> sized d m z ->
  let path := noisy_clipped_run C g gamma m z w in
  fresh p d k m path T -> centred p d k m z path T (C ^ 2 * sigma ^ 2 * INR d / B ^ 2) ->
  / INR T * total (map (fun t => E p (fun o => h C (g (path t o)) * norm (g (path t o)))) (seq 0 T))
  <= 1 / share d k * ((L w - least_L) / (gamma * INR T) + gamma * (G * C ^ 2 / 2) + share d k * gamma * Delta_DP C sigma (INR d) G B).

(* one of two entries, the same in all steps: (1, 1) on |w|^2 / 2, C = 6, B = 10, sigma = 1, T = 450, gamma = 1/90: at least 1 on the left, at most 0.804 on the right *)
Theorem printed_is_false : ~ printed.
Proof.
  intros (O & e & n & _ & claim). destruct (claim 2%nat 1%nat 6 1 10 1 (1 / 90) _ _ 0 held [1; 1] 450%nat ltac:(lia) ltac:(lra) Rlt_0_1 ltac:(lra) Rlt_0_1 ltac:(lra) ltac:(lia)
    (quadratic_smooth 2) (quadratic_least 2) held_uniform eq_refl) as (hs & kappa & k0 & le). clear claim.
  pose proof (kept_up e n (6 * 1 / 10) (3 * 6 / 4) ltac:(lra) hs) as ge.
  match type of le with ?X <= _ => change X with (E held (fun m => / INR 450 * total (map (fun t => ex e (fun o => low (3 * 6 / 4) (private_run 2 6 (6 * 1 / 10) (fun u => u) (1 / 90) m n [1; 1] t o))) (seq 0 450)))) in le end.
  assert (le' := Rle_trans _ _ _ ge le). clear ge le. cbv beta in le'. rewrite n450, start_loss in le'.
  assert (D : Delta_DP 6 1 (INR 2) 1 10 = 36 / 100) by (unfold Delta_DP; simpl; field). rewrite D in le'.
  assert (s : share 2 1 = 1 / 2) by (unfold share; simpl; field). rewrite s in k0, le'.
  assert (1 / kappa <= 2). { apply (Rmult_le_reg_r kappa); [lra|]. unfold Rdiv. rewrite Rmult_assoc, Rinv_l by lra. lra. }
  assert (0 < 1 / kappa) by (apply Rdiv_lt_0_compat; lra). nra.
Qed.
Theorem correction_holds : correction.
Proof.
  intros O p d k C G gamma sigma B L g l0 m z w T lp kd C0 G0 g0 T0 B1 sm le lw sz path fr ce.
  assert (V0 : 0 <= C ^ 2 * sigma ^ 2 * INR d / B ^ 2).
  { apply Rmult_le_pos; [|apply Rlt_le, Rinv_0_lt_compat; nra]. apply Rmult_le_pos; [|apply pos_INR]. pose proof (Rle_0_sqr (C * sigma)) as q. unfold Rsqr in q. nra. }
  pose proof (fresh_bound O p d k C (3 * C / 4) G gamma L g l0 m z w T _ lp kd ltac:(lra) G0 g0 T0 V0 sm le lw sz fr ce) as b.
  eapply Rle_trans; [exact b|]. right. unfold Delta_DP. pose proof (share_pos d k ltac:(lia) ltac:(lia)). assert (0 < INR T) by (apply lt_0_INR; lia).
  field. repeat split; lra.
Qed.
