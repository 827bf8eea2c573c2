(* Noise as unit_noise asks for it exists: independent signs, n_i = +-1 with equal chances. Outcomes are infinite sequences of coins; what depends on finitely many
   of them has its average over these as its mean, and nothing else has one. Where `printed` begins with "exists unit_noise" it is not for want of noise that it fails. *)
From kernel Require Import definitions lemmas.
Definition O := nat -> bool.
Definition put (b : bool) (o : O) : O := fun i => match i with 0%nat => b | S j => o j end.
Fixpoint av (N : nat) (f : O -> R) : R := match N with 0%nat => f (fun _ => false) | S M => (av M (fun o => f (put true o)) + av M (fun o => f (put false o))) / 2 end.
Definition sg (i : nat) (o : O) : R := if o i then 1 else -1.
Lemma av_ext N : forall f g, (forall o, f o = g o) -> av N f = av N g.
Proof. induction N; simpl; intros f g h; [apply h|]. rewrite (IHN (fun o => f (put true o)) (fun o => g (put true o))) by auto. rewrite (IHN (fun o => f (put false o)) (fun o => g (put false o))) by auto. reflexivity. Qed.
Lemma av_lin N : forall a b f g, av N (fun o => a * f o + b * g o) = a * av N f + b * av N g.
Proof. induction N; simpl; intros; [ring|]. rewrite !(IHN a b). field. Qed.
Lemma av_const N c : av N (fun _ => c) = c.
Proof. induction N; simpl; [reflexivity|]. rewrite IHN. field. Qed.
Lemma av_pos N : forall f, (forall o, 0 <= f o) -> 0 <= av N f.
Proof. induction N; simpl; intros f h; [apply h|]. assert (0 <= av N (fun o => f (put true o))) by (apply IHN; intro; apply h). assert (0 <= av N (fun o => f (put false o))) by (apply IHN; intro; apply h). lra. Qed.
Lemma av_sg N : forall i, (i < N)%nat -> av N (sg i) = 0.
Proof. induction N; intros i l; [lia|]. destruct i as [|i]; simpl.
  - rewrite (av_ext N (fun o => sg 0 (put true o)) (fun _ => 1)), (av_ext N (fun o => sg 0 (put false o)) (fun _ => -1)), !av_const by reflexivity. field.
  - rewrite (av_ext N (fun o => sg (S i) (put true o)) (sg i)), (av_ext N (fun o => sg (S i) (put false o)) (sg i)) by reflexivity. rewrite IHN by lia. field. Qed.
Lemma av_scale N c f : av N (fun o => c * f o) = c * av N f.
Proof. rewrite (av_ext N _ (fun o => c * f o + 0 * f o)) by (intro; ring). rewrite av_lin. ring. Qed.
Lemma av_two N : forall i j, (i < N)%nat -> (j < N)%nat -> av N (fun o => sg i o * sg j o) = if Nat.eqb i j then 1 else 0.
Proof. induction N; intros i j l l'; [lia|]. destruct i as [|i], j as [|j]; simpl.
  - rewrite (av_ext N (fun o => sg 0 (put true o) * _) (fun _ => 1)) by (intro; unfold sg, put; simpl; ring).
    rewrite (av_ext N (fun o => sg 0 (put false o) * _) (fun _ => 1)) by (intro; unfold sg, put; simpl; ring). rewrite av_const. field.
  - rewrite (av_ext N (fun o => sg 0 (put true o) * _) (fun o => 1 * sg j o)) by reflexivity.
    rewrite (av_ext N (fun o => sg 0 (put false o) * _) (fun o => -1 * sg j o)) by reflexivity. rewrite !av_scale, av_sg by lia. field.
  - rewrite (av_ext N (fun o => _ * sg 0 (put true o)) (fun o => 1 * sg i o)) by (intro; unfold sg, put; simpl; ring).
    rewrite (av_ext N (fun o => _ * sg 0 (put false o)) (fun o => -1 * sg i o)) by (intro; unfold sg, put; simpl; ring). rewrite !av_scale, av_sg by lia. field.
  - change ((av N (fun o => sg i o * sg j o) + av N (fun o => sg i o * sg j o)) / 2 = if Nat.eqb i j then 1 else 0). rewrite IHN by lia. destruct (Nat.eqb i j); field. Qed.
Definition under (f : O -> R) (y : R) : Prop := y <= - PI / 2 \/ exists N0, forall N, (N0 <= N)%nat -> y <= atan (av N f).
Lemma under_bound f : bound (under f).
Proof. exists (PI / 2). intros y [h|[N0 h]]; [pose proof PI_RGT_0; lra|]. specialize (h N0 (Nat.le_refl _)). pose proof (atan_bound (av N0 f)). lra. Qed.
Lemma under_some f : exists y, under f y. Proof. exists (- PI / 2). left. lra. Qed.
Definition mean (f : O -> R) : R := tan (proj1_sig (completeness (under f) (under_bound f) (under_some f))).
Definition settles (f : O -> R) (c : R) : Prop := exists N0, forall N, (N0 <= N)%nat -> av N f = c.
Lemma mean_is f c : settles f c -> mean f = c.
Proof. intros [N0 h]. unfold mean. destruct (completeness _ _ _) as [m [u l]]. simpl. replace m with (atan c); [apply tan_atan|]. apply Rle_antisym.
  - apply u. right. exists N0. intros N g. rewrite h by exact g. lra.
  - apply l. intros y [b|[N1 b]]; [pose proof (atan_bound c); lra|]. rewrite <- (h (max N0 N1)) by lia. apply b. lia. Qed.
Lemma settles_lin a b f g c d : settles f c -> settles g d -> settles (fun o => a * f o + b * g o) (a * c + b * d).
Proof. intros [N0 h] [N1 k]. exists (max N0 N1). intros N l. rewrite av_lin, h, k by lia. reflexivity. Qed.
Definition coin : expectation O.
Proof. refine {| has := fun f => exists c, settles f c; ex := mean |}.
  - intro c. exists c, 0%nat. intros; apply av_const.
  - intro c. apply mean_is. exists 0%nat. intros; apply av_const.
  - intros a b f g [c h] [d k]. exists (a * c + b * d). apply settles_lin; assumption.
  - intros a b f g [c h] [d k]. rewrite (mean_is f c h), (mean_is g d k). apply mean_is, settles_lin; assumption.
  - intros f [c h] p. rewrite (mean_is f c h). destruct h as [N0 h]. rewrite <- (h N0) by lia. apply av_pos, p. Defined.
Theorem unit_noise_exists : unit_noise coin sg.
Proof.
  assert (s1 : forall i, settles (sg i) 0) by (intro i; exists (S i); intros N l; apply av_sg; lia).
  assert (s2 : forall i j, settles (fun o => sg i o * sg j o) (if Nat.eqb i j then 1 else 0)) by (intros i j; exists (S (max i j)); intros N l; apply av_two; lia).
  repeat split; simpl; intros; [exists 0; apply s1 | apply mean_is, s1 | eexists; apply s2 | apply mean_is, s2]. Qed.
