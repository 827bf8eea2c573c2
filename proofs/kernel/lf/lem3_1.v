(* lf.lem3.1: DP-SGD-LF: Improving utility under differentially private learning via layer freezing (LF), anonymous submission under double-blind review: Lemma 3.1 and Appendix A.
   min_{t=0..T} E|grad f(theta_t)|^2 <= (f(theta_0) - E f(theta_T) - sum_{t=1}^T eta_t E[cos(gamma_t^B)|grad f(theta_t)||s_t^B|]
   + sum_{t=1}^T eta_t^2 L/(2 B^2) sigma^2 C^2) / sum_{t=1}^T eta_t, for f with L-Lipschitz gradient, theta_{t+1} = theta_t - eta_t s_t^P. *)
From kernel Require Import definitions lemmas.

(* The batch is the whole data and all examples have the true gradient: a case that the lemma covers. cos(gamma^B)|grad f||s^B| = <grad f, s^B>; eta_t = eta for all t. *)
Definition signal (C : R) (g : vec -> vec) (theta : vec) : vec := clip C (g theta).
Fixpoint run {O} (d : nat) (C tau : R) (g : vec -> vec) (eta : R) (n : nat -> O -> R) (theta : vec) (t : nat) (o : O) : vec :=
  match t with O => theta | S t' => let u := run d C tau g eta n theta t' o in sub u (scale eta (add (signal C g u) (scale tau (step_noise n d t' o)))) end.
Definition at_or_below (a : R) (l : list R) : Prop := exists b, In b l /\ b <= a.       (* min l <= a *)
(* The steps lead from theta_0 to theta_T with the step sizes eta_0, ..., eta_{T-1}; the printed sums have t = 1, ..., T.
   Read as printed (from = 1) the gradients and signals are those where steps lead to; the proof has those where they start (from = 0). *)
Definition lemma_for {O} (e : expectation O) (n : nat -> O -> R) (from : nat) : Prop :=
  forall d L C f g eta sigma B theta T, 0 < L -> 0 < C -> 0 < eta -> 0 < sigma -> 1 <= B -> (0 < T)%nat ->
  smooth d L f g -> length theta = d ->
  let path := run d C (sigma * C / B) g eta n theta in
  (forall t, has e (fun o => f (path t o)) /\ has e (fun o => square (g (path t o))) /\ has e (fun o => dot (g (path t o)) (signal C g (path t o)))) /\
  at_or_below ((f theta - ex e (fun o => f (path T o)) - total (map (fun t => eta * ex e (fun o => dot (g (path t o)) (signal C g (path t o)))) (seq from T))
      + INR T * (eta ^ 2 * L / (2 * B ^ 2) * sigma ^ 2 * C ^ 2)) / (INR T * eta))
    (map (fun t => ex e (fun o => square (g (path t o)))) (seq 0 (S T))).
Definition printed : Prop := exists (O : Type) (e : expectation O) (n : nat -> O -> R), unit_noise e n /\ (lemma_for e n 1 \/ lemma_for e n 0).

(* f = theta^2 / 2 from 1, C = B = 1, sigma = 4, one step of 1/2: the left side is 1; the right side is at most 3/4 as printed, -1/4 as in the proof *)
Lemma unit : clip 1 [1] = [1].
Proof. apply clip_short, norm_le; unfold square, dot; simpl; lra. Qed.
Lemma clipped_agrees (v : vec) : 0 <= dot v (clip 1 v).
Proof. unfold clip. rewrite dot_comm, dot_scale. pose proof (square_nonneg v) as s. unfold square in s. apply Rmult_le_pos; [|exact s].
  destruct (Req_dec (norm v) 0) as [z|nz]; [rewrite z; unfold Rdiv; rewrite Rinv_0; apply Rmin_glb; lra|].
  pose proof (norm_nonneg v). apply Rmin_glb; [lra|]. apply Rlt_le, Rdiv_lt_0_compat; lra. Qed.
Section Numbers.
Variables (O : Type) (e : expectation O) (n : nat -> O -> R).
Hypothesis (nz : unit_noise e n).
Let path := run 1 1 (4 * 1 / 1) (fun u => u) (1 / 2) n [1].
Lemma next o : path 1 o = [1 / 2 - 2 * n 0%nat o].
Proof. unfold path, run, signal. rewrite unit. unfold sub, add, scale, step_noise. cbn [seq zip map mult plus]. f_equal. field. Qed.
Lemma second_moment : ex e (fun o => square (path 1 o)) = 17 / 4.
Proof.
  rewrite (ex_ext e _ (fun o => 1 / 4 + -2 * n 0%nat o + 0 * n 1%nat o + 4 * (n 0%nat o * n 0%nat o) + 0 * (n 1%nat o * n 1%nat o) + 0 * (n 0%nat o * n 1%nat o))).
  - rewrite (ex_two O e n nz). field.
  - intro o. rewrite next. unfold square, dot. simpl. field.
Qed.
Lemma halved : has e (fun o => square (path 1 o)) -> ex e (fun o => square (path 1 o) / 2) = 17 / 8.
Proof. intro h. rewrite (ex_ext e _ (fun o => 1 / 2 * square (path 1 o))) by (intro; field). rewrite ex_scale, second_moment by exact h. field. Qed.
End Numbers.
Theorem printed_is_false : ~ printed.
Proof.
  intros (O & e & n & nz & [claim|claim]);
    destruct (claim 1%nat 1 1 _ _ (1 / 2) 4 1 [1] 1%nat Rlt_0_1 Rlt_0_1 ltac:(lra) ltac:(lra) ltac:(lra) ltac:(lia) (quadratic_smooth 1) eq_refl) as (hs & b & i & le); clear claim;
    destruct (hs 1%nat) as (_ & h2 & h3); pose proof (second_moment O e n nz) as m2; pose proof (halved O e n nz h2) as m1;
    cbv beta in *; cbn [map seq total fold_right] in i, le; rewrite m1 in le; rewrite m2 in i;
    rewrite (ex_ext e (fun o => square (run 1 1 (4 * 1 / 1) (fun u => u) (1 / 2) n [1] 0 o)) (fun _ => 1)), ex_constant in i by (intro; unfold square, dot; simpl; ring);
    assert (s1 : square [1] = 1) by (unfold square, dot; simpl; ring); rewrite s1 in le; simpl INR in le.
  - set (X := ex e (fun o => dot (run 1 1 (4 * 1 / 1) (fun u => u) (1 / 2) n [1] 1 o) (signal 1 (fun u => u) (run 1 1 (4 * 1 / 1) (fun u => u) (1 / 2) n [1] 1 o)))) in *.
    assert (0 <= X) by (apply ex_positive; [exact h3 | intro; apply clipped_agrees]).
    destruct i as [<-|[<-|[]]]; lra.
  - rewrite (ex_ext e (fun o => dot (run 1 1 (4 * 1 / 1) (fun u => u) (1 / 2) n [1] 0 o) _) (fun _ => 1)), ex_constant in le
      by (intro; unfold signal; cbn [run]; rewrite unit; unfold dot; simpl; ring).
    destruct i as [<-|[<-|[]]]; lra.
Qed.
