(* rs.thm3.5: Zhu and Blaschko, Improving Differentially Private SGD via Randomly Sparsified Gradients (RS), the version with Lemma 3.3: Theorem 3.5 (eq. 14).
   DP-SGD with RS: as Theorem 3.4, with the noise N(0, C^2 sigma^2 I) and + ((1 - r)/kappa) gamma Delta_sigma on the right, Delta_sigma = C^2 sigma^2 d G / (2 B^2). *)
From kernel Require Import definitions lemmas.

From kernel Require Import rs.lem3_3 rs.thm3_2 rs.thm3_4.
(* The case sigma = 0, which the theorem does not exclude, without deviation (see rs.thm3.4). *)
Definition Delta_sigma (C sigma d G B : R) : R := C ^ 2 * sigma ^ 2 * d * G / (2 * B ^ 2).
Definition printed : Prop := forall d k C G B gamma L g least_L q w T, (0 < k < d)%nat -> 0 < C -> 0 < G -> 1 <= B -> 0 < gamma -> (0 < T)%nat ->
  smooth d G L g -> least d L least_L -> uniform_masks d k q -> length w = d ->
  exists kappa, share d k < kappa < 1 /\
  E q (fun m => / INR T * total (map (fun t => let v := g (clipped_run C g gamma m w t) in h C v * norm v) (seq 0 T)))
  <= 1 / kappa * ((L w - least_L) / (gamma * INR T) + gamma * (G * C ^ 2 / 2))
     + (1 - (1 - share d k)) / kappa * gamma * Delta_sigma C 0 (INR d) G B.

Theorem printed_is_false : ~ printed.
Proof.
  intro claim. destruct (claim 2%nat 1%nat 6 1 1 (1 / 90) _ _ 0 held [1; 1] 450%nat ltac:(lia) ltac:(lra) Rlt_0_1 ltac:(lra) ltac:(lra) ltac:(lia)
    (quadratic_smooth 2) (quadratic_least 2) held_uniform eq_refl) as (kappa & [k0 _] & le).
  change (E held (mean_left (6 / 4)) <= 1 / kappa * ((square [1; 1] / 2 - 0) / (1 / 90 * INR 450) + 1 / 90 * (1 * 6 ^ 2 / 2))
    + (1 - (1 - share 2 1)) / kappa * (1 / 90) * Delta_sigma 6 0 (INR 2) 1 1) in le.
  replace (Delta_sigma 6 0 (INR 2) 1 1) with 0 in le by (unfold Delta_sigma; simpl; field). rewrite Rmult_0_r, Rplus_0_r in le.
  rewrite held_value, n450, start_loss in le.
  pose proof (left_side (6 / 4) _ ltac:(lra) (or_introl eq_refl)) as a. pose proof (left_side (6 / 4) _ ltac:(lra) (or_intror (or_introl eq_refl))) as b.
  set (A := mean_left (6 / 4) (fun _ => [true; false])) in *. set (B := mean_left (6 / 4) (fun _ => [false; true])) in *. clearbody A B.
  assert (s : share 2 1 = 1 / 2) by (unfold share; simpl; field). rewrite s in k0.
  assert (1 / kappa < 2). { apply (Rmult_lt_reg_r kappa); [lra|]. unfold Rdiv. rewrite Rmult_assoc, Rinv_l by lra. lra. }
  assert (0 < 1 / kappa) by (apply Rdiv_lt_0_compat; lra). nra.
Qed.

(* with fresh masks and noise of second moment C^2 sigma^2 d / B^2 it holds in expectation, with the value 1 - r for kappa *)
Definition correction : Prop := forall (O : Type) (p : law O) d k C G gamma sigma B L g least_L m z w T, lawful p -> (0 < k <= d)%nat -> 0 < C -> 0 < G -> 0 < gamma -> (0 < T)%nat -> 1 <= B ->
  smooth d G L g -> least d L least_L -> length w = d -> sized d m z ->
  let path := noisy_clipped_run C g gamma m z w in
  fresh p d k m path T -> centred p d k m z path T (C ^ 2 * sigma ^ 2 * INR d / B ^ 2) ->
  / INR T * total (map (fun t => E p (fun o => h C (g (path t o)) * norm (g (path t o)))) (seq 0 T))
  <= 1 / share d k * ((L w - least_L) / (gamma * INR T) + gamma * (G * C ^ 2 / 2)) + share d k / share d k * gamma * Delta_sigma C sigma (INR d) G B.
Theorem correction_holds : correction.
Proof.
  intros O p d k C G gamma sigma B L g l0 m z w T lp kd C0 G0 g0 T0 B1 sm le lw sz path fr ce.
  replace (Delta_sigma C sigma (INR d) G B) with (G / 2 * (C ^ 2 * sigma ^ 2 * INR d / B ^ 2)) by (unfold Delta_sigma; field; lra).
  apply (rs.thm3_4.correction_holds O p d k C G gamma L g l0 m z w T); try assumption.
  apply Rmult_le_pos; [|apply Rlt_le, Rinv_0_lt_compat; nra]. apply Rmult_le_pos; [|apply pos_INR]. pose proof (Rle_0_sqr (C * sigma)) as q. unfold Rsqr in q. nra.
Qed.
