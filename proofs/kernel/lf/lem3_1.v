(* lf.lem3.1: DP-SGD-LF: Improving utility under differentially private learning via layer freezing (LF), anonymous submission under double-blind review: Lemma 3.1 and Appendix A.
   min_{t=0..T} E|grad f(theta_t)|^2 <= (f(theta_0) - E f(theta_T) - sum_{t=1}^T eta_t E[cos(gamma_t^B)|grad f(theta_t)||s_t^B|]
   + sum_{t=1}^T eta_t^2 L/(2 B^2) sigma^2 C^2) / sum_{t=1}^T eta_t, for f with L-Lipschitz gradient, theta_{t+1} = theta_t - eta_t s_t^P. *)
From kernel Require Import definitions lemmas.

(* The batch is the whole data, all examples have the true gradient, sigma = 0: a case that the lemma covers. cos(gamma^B)|grad f||s^B| = <grad f, s^B>. *)
Definition signal (C : R) (g : vec -> vec) (theta : vec) : vec := clip C (g theta).
Fixpoint run (C : R) (g : vec -> vec) (eta : nat -> R) (theta : vec) (t : nat) : vec :=
  match t with O => theta | S t' => let u := run C g eta theta t' in sub u (scale (eta t') (signal C g u)) end.
Definition at_or_below (a : R) (l : list R) : Prop := exists b, In b l /\ b <= a.       (* min l <= a *)
(* The steps lead from theta_0 to theta_T with the step sizes eta_0, ..., eta_{T-1}; the printed sums have t = 1, ..., T.
   Read as printed (from = 1) the gradients and signals are those where steps lead to, with eta_t = eta for all t; the proof has those where they start (from = 0). *)
Definition right_side (from : nat) (L : R) C f g (eta sigma B : R) theta (T : nat) : R :=
  let path := run C g (fun _ => eta) theta in
  (f theta - f (path T) - total (map (fun t => eta * dot (g (path t)) (signal C g (path t))) (seq from T))
   + INR T * (eta ^ 2 * L / (2 * B ^ 2) * sigma ^ 2 * C ^ 2)) / (INR T * eta).
Definition lemma_for (from : nat) : Prop := forall d L C f g eta theta T, 0 < L -> 0 < C -> 0 < eta -> (0 < T)%nat ->
  smooth d L f g -> length theta = d ->
  at_or_below (right_side from L C f g eta 0 1 theta T)
    (map (fun t => square (g (run C g (fun _ => eta) theta t))) (seq 0 (S T))).
Definition printed : Prop := lemma_for 1 \/ lemma_for 0.

(* f = theta^2 / 2 from 1, one step of 1/10: the left side is 81/100; the right side is 7/50 as printed, -1/20 as in the proof *)
Lemma unit : clip 1 [1] = [1].
Proof. apply clip_short, norm_le; unfold square, dot; simpl; lra. Qed.
Lemma next : run 1 (fun u => u) (fun _ => 1 / 10) [1] 1 = [9 / 10].
Proof. unfold run, signal. rewrite unit. unfold sub, scale. cbn [zip map]. f_equal. lra. Qed.
Lemma small : clip 1 [9 / 10] = [9 / 10].
Proof. apply clip_short, norm_le; unfold square, dot; simpl; lra. Qed.
Theorem printed_is_false : ~ printed.
Proof.
  intros [claim|claim]; destruct (claim 1%nat 1 1 _ _ (1 / 10) [1] 1%nat Rlt_0_1 Rlt_0_1 ltac:(lra) ltac:(lia) (quadratic_smooth 1) eq_refl) as (b & i & le);
    unfold right_side in le; cbn [map seq total fold_right] in i, le; rewrite next in i, le; unfold signal in le; cbn [run] in i, le; rewrite ?small, ?unit in le;
    unfold square, dot in i, le; simpl in i, le; destruct i as [<-|[<-|[]]]; lra.
Qed.
